// SHA-256 and HMAC against published vectors.
#include "base/sha256.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness.h"

namespace {

std::vector<uint8_t> Bytes(std::string_view text) { return {text.begin(), text.end()}; }

std::string Hex(const hvd::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Hash(std::string_view text) {
  hvd::Sha256 hash;
  hash.Update(Bytes(text));
  return Hex(hash.Finish());
}

}  // namespace

// FIPS 180-4 examples.
TEST(HashesOfTheStandard) {
  EXPECT_EQ(Hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(PiecesHashLikeTheWhole) {
  const std::vector<uint8_t> text(1000, 'x');
  for (const size_t piece : {1, 7, 63, 64, 65, 999}) {
    hvd::Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece) {
      hash.Update(std::span(text).subspan(at, std::min(piece, text.size() - at)));
    }
    EXPECT_EQ(Hex(hash.Finish()), Hash(std::string(1000, 'x')));
  }
}

// RFC 4231, test cases 1, 2, 3, 4, 6 and 7.
TEST(HmacOfTheRfc) {
  using Vector = std::vector<uint8_t>;
  EXPECT_EQ(Hex(hvd::HmacSha256(Vector(20, 0x0b), Bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(hvd::HmacSha256(Bytes("Jefe"), Bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(hvd::HmacSha256(Vector(20, 0xaa), Vector(50, 0xdd))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  Vector counting;
  for (uint8_t i = 1; i <= 25; ++i) counting.push_back(i);
  EXPECT_EQ(Hex(hvd::HmacSha256(counting, Vector(50, 0xcd))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(Hex(hvd::HmacSha256(Vector(131, 0xaa),
                                Bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(Hex(hvd::HmacSha256(
                Vector(131, 0xaa),
                Bytes("This is a test using a larger than block-size key and a larger than "
                      "block-size data. The key needs to be hashed before being used by the HMAC "
                      "algorithm."))),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(ComparisonSeesEveryByte) {
  std::vector<uint8_t> a(32, 1);
  EXPECT_TRUE(hvd::EqualInConstantTime(a, std::vector<uint8_t>(32, 1)));
  EXPECT_FALSE(hvd::EqualInConstantTime(a, std::vector<uint8_t>(31, 1)));
  for (size_t i = 0; i < a.size(); ++i) {
    std::vector<uint8_t> b = a;
    b[i] ^= 0x80;
    EXPECT_FALSE(hvd::EqualInConstantTime(a, b));
  }
}

TEST(RandomBytesDiffer) {
  std::vector<uint8_t> a(16);
  std::vector<uint8_t> b(16);
  hvd::RandomBytes(a);
  hvd::RandomBytes(b);
  EXPECT_FALSE(a == b);
}
