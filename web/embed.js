// node embed.js FOLDER OUT.cc: the files of a built page as C++ (src/gateway/page.h). The same files
// give the same bytes.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const LINE_BYTES = 80;

function filesOf(folder) {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

// The operating system stands in the head of a gzip file; 255 is "unknown".
function gzipped(bytes) {
  const packed = gzipSync(bytes, { level: 9 });
  packed[9] = 255;
  return packed;
}

function escaped(byte) {
  if (byte === 0x22 || byte === 0x5c || byte === 0x3f) return `\\${String.fromCharCode(byte)}`;
  if (byte >= 0x20 && byte < 0x7f) return String.fromCharCode(byte);
  return `\\${byte.toString(8).padStart(3, '0')}`; // three digits: the next character can't join in
}

function literal(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += LINE_BYTES) {
    lines.push(`        "${Array.from(bytes.subarray(at, at + LINE_BYTES), escaped).join('')}"`);
  }
  return `{\n${lines.join('\n') || '        ""'},\n        ${bytes.length}}`;
}

function entry(folder, file) {
  const path = `/${relative(folder, file)}`;
  const type = TYPES[extname(file)];
  if (!type) throw new Error(`${path}: no media type is known for it; add it to embed.js`);
  const plain = readFileSync(file);
  const packed = gzipped(plain);
  const isSmaller = packed.length < plain.length;
  return `    {.path = "${path}",
     .type = "${type}",
     .hash = "${createHash('sha256').update(plain).digest('hex').slice(0, 20)}",
     .has_hash_in_name = ${/-[\w-]{8,}\.\w+$/.test(path)},
     .plain = ${literal(plain)},
     .gzip = ${literal(isSmaller ? packed : Buffer.alloc(0))}}`;
}

// The browser hashes what stands between the tags.
function scriptHashes(folder) {
  const html = readFileSync(join(folder, 'index.html'), 'utf8');
  const scripts = [...html.matchAll(/<script>([^]*?)<\/script>/g)].map((match) => match[1]);
  return scripts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`).join(' ');
}

const [folder, out] = process.argv.slice(2);
writeFileSync(
  out,
  `// Made from web/ by tools/page.sh.

#include "gateway/page.h"

namespace salvage::gateway {
namespace {

constexpr PageFile kFiles[] = {
${filesOf(folder)
  .map((file) => entry(folder, file))
  .join(',\n')}};

constexpr Page kPage{.files = kFiles, .script_hashes = "${scriptHashes(folder)}"};

}  // namespace

const Page& built_in_page() {
  return kPage;
}

}  // namespace salvage::gateway
`,
);
