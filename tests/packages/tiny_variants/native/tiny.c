/* Sums floats; compiled once for each CPU level. */
#define TINY_API __attribute__((visibility("default")))

TINY_API const char* tiny_level(void) { return TINY_LEVEL; }

TINY_API double tiny_total(const float* values, long count) {
  double total = 0.0;
  for (long i = 0; i < count; ++i) total += values[i];
  return total;
}

TINY_API void tiny_scale(float* values, long count, float factor) {
  for (long i = 0; i < count; ++i) values[i] *= factor;
}
