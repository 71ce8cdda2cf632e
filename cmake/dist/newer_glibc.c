// The three things that this compiler's own libraries (libstdc++.a, libgcc_eh.a) take from a C library
// newer than the one that the portable directory is linked against. tools/dist_sysroot.sh adds them to
// the sysroot's libc_nonshared.a, from where every link takes what it needs. They are hidden: neither
// the program nor a CPU variant exports them, and no newer C library's own are replaced for others.
//
// A fourth such symbol would be a link that fails, never a program that doesn't start elsewhere.
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

// glibc 2.32. "Perhaps several threads": libstdc++ then counts references atomically, always.
const char __libc_single_threaded = 0;

// glibc 2.36. Behind std::random_device's token "arc4random", which nobody here asks for.
uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}

// glibc 2.35. Which loaded object holds an address, and where are its unwind tables? The layout is
// that of <dlfcn.h> there. Walking the list of objects is slower than what glibc does, but it is walked
// once a frame of an exception and no more.
struct dl_find_object {
  unsigned long long flags;
  void *map_start;
  void *map_end;
  struct link_map *link_map;
  void *eh_frame;
  unsigned long long reserved[7];
};

struct search {
  ElfW(Addr) address;
  struct dl_find_object *found;
};

static int holds_address(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  const ElfW(Phdr) *tables = NULL;
  const ElfW(Phdr) *segment = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    const ElfW(Addr) start = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_GNU_EH_FRAME) tables = header;
    if (header->p_type == PT_LOAD && search->address - start < header->p_memsz) segment = header;
  }
  if (segment == NULL || tables == NULL) return 0;
  const ElfW(Addr) start = object->dlpi_addr + segment->p_vaddr;
  search->found->flags = 0;
  search->found->map_start = (void *)start;
  search->found->map_end = (void *)(start + segment->p_memsz);
  search->found->link_map = NULL;
  search->found->eh_frame = (void *)(object->dlpi_addr + tables->p_vaddr);
  return 1;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
  struct search search = {(ElfW(Addr))address, result};
  return dl_iterate_phdr(holds_address, &search) == 1 ? 0 : -1;
}
