// A small test harness, so that the native tests need nothing but a compiler.
//
//   TEST(Name) { EXPECT_EQ(actual, expected); EXPECT_THROWS(call(), std::runtime_error, "text"); }
//
// A failed expectation is reported and the test goes on; expectations may be used in any thread.
// A program without a main() of its own gets that of harness_main.cc; its arguments select the
// tests whose name contains one.
#ifndef HVD_TESTS_NATIVE_HARNESS_H_
#define HVD_TESTS_NATIVE_HARNESS_H_

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <ranges>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd::test {

// Under which arithmetic takes twenty times as long; what it is for are threads.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Of what a test computes by itself, element by element: the thread sanitizer does not follow it.
#define HVD_TEST_ARITHMETIC __attribute__((no_sanitize("thread")))

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

inline std::atomic<int>& Failures() {
  static std::atomic<int> failures{0};
  return failures;
}

struct Registration {
  Registration(const char* name, void (*body)()) { Cases().push_back({name, body}); }
};

inline void Report(const char* file, int line, const std::string& text) {
  Failures().fetch_add(1);
  // One call, so that reports of several threads do not mix.
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

template <typename T>
std::string Show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::is_enum_v<T>) {
    out << +static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    out.precision(17);
    out << +value;
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (std::ranges::range<const T>) {
    size_t shown = 0;
    out << "{";
    for (const auto& item : value) {
      if (shown == 32) {
        out << ", ...";
        break;
      }
      out << (shown++ == 0 ? "" : ", ") << Show(item);
    }
    out << "}";
  } else {
    out << "(a value of " << sizeof(T) << " bytes)";
  }
  return out.str();
}

template <typename T>
concept Integer = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

template <typename A, typename B>
bool Equal(const A& a, const B& b) {
  if constexpr (Integer<A> && Integer<B>) {
    return std::cmp_equal(a, b);  // 3 == 3u without a warning about signs
  } else {
    return a == b;
  }
}

template <typename A, typename B>
void ExpectEq(const A& actual, const B& expected, const char* text, const char* file, int line) {
  if (Equal(actual, expected)) return;
  Report(file, line, std::string(text) + " is " + Show(actual) + ", not " + Show(expected));
}

template <typename E>
void ExpectThrows(const std::function<void()>& call, const char* text, const char* file, int line,
                  std::string_view part = "") {
  try {
    call();
  } catch (const E& error) {
    if (std::string_view(error.what()).find(part) == std::string_view::npos) {
      Report(file, line,
             std::string(text) + " threw \"" + error.what() + "\", without \"" + std::string(part) +
                 "\"");
    }
    return;
  } catch (const std::exception& error) {
    return Report(file, line, std::string(text) + " threw another type: " + error.what());
  }
  Report(file, line, std::string(text) + " threw nothing");
}

inline bool Selected(std::string_view name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (name.find(argv[i]) != std::string_view::npos) return true;
  }
  return argc < 2;
}

inline bool Passes(const Case& test) {
  Failures() = 0;
  try {
    test.body();
  } catch (const std::exception& error) {
    Report(test.name, 0, std::string("ended by an exception: ") + error.what());
  }
  if (Failures() != 0) std::fprintf(stderr, "FAILED %s\n", test.name);
  return Failures() == 0;
}

inline int RunAll(int argc, char** argv) {
  int passed = 0;
  int failed = 0;
  for (const Case& test : Cases()) {
    if (Selected(test.name, argc, argv)) ++(Passes(test) ? passed : failed);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

// Shows the text where it has no such part.
inline bool Contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::fprintf(stderr, "without \"%s\": %s\n", part.c_str(), text.c_str());
  return false;
}

}  // namespace hvd::test

#define TEST(name)                                                              \
  static void Test##name();                                                     \
  static const ::hvd::test::Registration registration##name(#name, Test##name); \
  static void Test##name()

#define EXPECT_EQ(actual, expected) \
  ::hvd::test::ExpectEq(actual, expected, #actual, __FILE__, __LINE__)
#define EXPECT_TRUE(condition) \
  ::hvd::test::ExpectEq(static_cast<bool>(condition), true, #condition, __FILE__, __LINE__)
#define EXPECT_FALSE(condition) \
  ::hvd::test::ExpectEq(static_cast<bool>(condition), false, #condition, __FILE__, __LINE__)
// EXPECT_THROWS(call, Type) or EXPECT_THROWS(call, Type, "part of what()").
#define EXPECT_THROWS(call, Type, ...)                                               \
  ::hvd::test::ExpectThrows<Type>([&] { static_cast<void>(call); }, #call, __FILE__, \
                                  __LINE__ __VA_OPT__(, ) __VA_ARGS__)

#endif  // HVD_TESTS_NATIVE_HARNESS_H_
