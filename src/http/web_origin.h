#pragma once

// Whether a request is a strange web page's. Without keys whatever runs on this machine may ask,
// and so might every page that somebody has open in a browser here: it may post to any address (the
// browser only keeps the answer from it), and once its own name has been made to lead to 127.0.0.1
// (DNS rebinding) it may read as well. Such requests give themselves away by Origin and Host, which
// pages can't write. Pure.

#include "http/http_service.h"

namespace salvage::http {

// Sent by a page that isn't this server's. Programs send no Origin, browser extensions and desktop
// programs one that is no web address.
bool has_foreign_origin(const HttpRequest& request);

// Asks for a name that somebody may have registered: not an address, not localhost, not a name of a
// home network ("attic", "attic.local").
bool has_foreign_host(const HttpRequest& request);

}  // namespace salvage::http
