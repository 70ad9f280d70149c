#include <cstdio>

int main() {
  std::puts("foretrain " FORETRAIN_VERSION);
  return 0;
}
