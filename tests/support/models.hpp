// Models for tests, built layer by layer and apart from the files in models/: small ones that every backend
// can train in a moment, and the shipped architectures as a second, independent statement.
#pragma once

#include "sim/training/model.hpp"

namespace foretrain::test {

// conv-bn-relu, a residual block, max, average and global pool, linear with bias; images of 3 x 12 x 12, 5
// classes.
Model tiny_cnn();
// linear-relu-linear on flattened 1 x 4 x 4 images, 3 classes.
Model tiny_mlp();

// Models of tokens. An encoder and a decoder with cross attention, one table for source, target and output,
// learned positions and segments; sequences of 5, 11 words. `dropout` everywhere where it can stand.
Model tiny_transformer(double dropout = 0);
// RMS norms, rotary positions, grouped queries, SiLU gates, an output of its own; sequences of 6, 13 words.
Model tiny_llama();
// Stacked encoder, bidirectional, whose last state begins the decoder, and a concatenation; sequences of 4, 7
// words.
Model tiny_seq2seq(LayerKind recurrence, bool unrolled = false);

// He et al. 2015, "v1.5": the stride of a bottleneck sits in its 3x3 convolution. 224 x 224, 1,000 classes.
Model resnet50();
Model resnet18();
// Simonyan & Zisserman 2014, configuration D, without dropout. 224 x 224, 1,000 classes.
Model vgg16();
// Zagoruyko & Komodakis 2016, pre-activation; 32 x 32, 10 classes. depth = 6 n + 4.
Model wide_resnet(int depth, int widen);

}  // namespace foretrain::test
