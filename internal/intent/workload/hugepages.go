package workload

import "slices"

// HugePages is memory in huge pages, by their size. It is comparable. No architecture has pages of more than four
// sizes: bytes of a fifth size are ignored.
type HugePages [4]SizedPages

// SizedPages is the memory in pages of one size, both in bytes. A size of 0 is an empty entry.
type SizedPages struct{ Size, Bytes int64 }

// Of returns the bytes in pages of a size.
func (h *HugePages) Of(size int64) int64 {
	for _, one := range h {
		if one.Size == size {
			return one.Bytes
		}
	}
	return 0
}

// Put adds bytes, which may be negative, in pages of a size. Sizes are in ascending order, and no entry has 0 bytes, so
// that equal amounts are equal values.
func (h *HugePages) Put(size, bytes int64) {
	if size <= 0 || bytes == 0 {
		return
	}
	all := append(make([]SizedPages, 0, len(h)+1), h[:]...)
	all = slices.DeleteFunc(all, func(one SizedPages) bool { return one.Size == 0 })
	at, found := slices.BinarySearchFunc(all, size, func(one SizedPages, size int64) int { return int(one.Size - size) })
	switch {
	case !found:
		all = slices.Insert(all, at, SizedPages{size, bytes})
	case all[at].Bytes == -bytes:
		all = slices.Delete(all, at, at+1)
	default:
		all[at].Bytes += bytes
	}
	*h = HugePages{}
	copy(h[:], all)
}

// Add adds other, multiplied by times: -1 subtracts it.
func (h *HugePages) Add(other HugePages, times int64) {
	for _, one := range other {
		h.Put(one.Size, one.Bytes*times)
	}
}
