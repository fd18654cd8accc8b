#include "harness.h"

int main(int argc, char** argv) { return hvd::test::RunAll(argc, argv); }
