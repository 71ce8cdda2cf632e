// Any bytes, as a certificate in both its forms and as an authority's: nothing is accepted but the
// one certificate whose authority stands below (the seeds have it, whole and damaged), and what was
// read is written again as it was. The authority's key was thrown away.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "identity/authority.h"

using namespace salvage;

namespace {

constexpr const char* kAuthority =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBpjCCAVigAwIBAgIQVUZKhGU5lB6XF5oNuc/iCzAFBgMrZXAwXzFJMEcGA1UE\n"
    "AwxANjYzYjJhMWQyYjJkYWNhNGI5ZmRiMzVjMjllMDZiYTZjYjU0YzQyMTg4MTZi\n"
    "YzM2Y2MxNGIyODNmNDA5MDllNDESMBAGA1UECwwJYXV0aG9yaXR5MCIYDzIwMDAw\n"
    "MTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMF8xSTBHBgNVBAMMQDY2M2IyYTFk\n"
    "MmIyZGFjYTRiOWZkYjM1YzI5ZTA2YmE2Y2I1NGM0MjE4ODE2YmMzNmNjMTRiMjgz\n"
    "ZjQwOTA5ZTQxEjAQBgNVBAsMCWF1dGhvcml0eTAqMAUGAytlcAMhADDjGlgdHQgE\n"
    "OJ7B6DZwvY/8SLwlPPTCdRqB/ILZkYsXoyYwJDASBgNVHRMBAf8ECDAGAQH/AgEA\n"
    "MA4GA1UdDwEB/wQEAwICBDAFBgMrZXADQQD8OhWMzT9yEAV9w3PmZcivbM0n9zUq\n"
    "7tIkc29OnMsHFMbHI14n6SpCog8itwxyoHdBlLGA7C9lnBX0WCk3sicH\n"
    "-----END CERTIFICATE-----\n";
constexpr const char* kMember = "7294aa655a34a0181083bac90797b35778cd55bc05d70cc59b395b8029605101";

void check(const std::string& pem) {
  const auto facts = identity::check_certificate(pem, kAuthority);
  if (facts && facts->node.value != kMember) std::abort();
  if (facts && facts->role != identity::NodeRole::kNode) std::abort();
  const auto id = identity::cluster_id_of(pem);
  if (id && id->size() != 64) std::abort();
  const auto der = identity::certificate_to_der(pem);
  if (!der) return;
  const auto back = identity::certificate_from_der(*der);
  // What was lax in the reading is strict in the writing, and stays the same from then on.
  if (back && identity::certificate_to_der(*back).value() != *der) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  if (const auto pem = identity::certificate_from_der(bytes)) check(*pem);
  // OpenSSL tries every format that it knows on what might be a key: too slow for all the noise.
  if (bytes.find("PUBLIC KEY") != std::string::npos) (void)identity::node_id_of(bytes).has_value();
  return 0;
}
