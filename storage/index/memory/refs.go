package memory

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Ref is the dense number of an active series, counted from 1. A process never reuses a Ref for another series.
type Ref uint32

// refTable maps each Ref to its place (slot of the metric's table, ordinal) and to its last active hour. Pages never
// move. A page is freed when all its refs are retired.
type refTable struct {
	mu    sync.Mutex
	next  uint32 // last allocated ref
	pages atomic.Pointer[[]*refPage]
	live  atomic.Int64 // pages in use
}

const (
	refPageBits = 10
	refPageSize = 1 << refPageBits
)

type refPage struct {
	place [refPageSize]atomic.Uint64 // (slot+1)<<32 | ordinal; 0 is free or retired
	last  [refPageSize]atomic.Uint32 // last hour active or added
	live  atomic.Int32
}

var errRefsExhausted = errors.New("index: all series numbers of this process are used up; restart it")

func (r *refTable) page(ref Ref) *refPage {
	pages := r.pages.Load()
	n := int(ref >> refPageBits)
	if pages == nil || n >= len(*pages) {
		return nil
	}
	return (*pages)[n]
}

// allocate returns the next ref and sets its place.
func (r *refTable) allocate(slot, ordinal uint32, hour int64) (Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == 1<<32-1 {
		return 0, errRefsExhausted
	}
	r.next++
	ref := Ref(r.next)
	n := int(ref >> refPageBits)
	var pages []*refPage
	if p := r.pages.Load(); p != nil {
		pages = *p
	}
	if n >= len(pages) || pages[n] == nil {
		var grown []*refPage
		if n < len(pages) {
			grown = slices.Clone(pages)
		} else { // readers stay within the length that they loaded
			grown = append(pages, make([]*refPage, n+1-len(pages))...)
		}
		grown[n] = &refPage{}
		r.pages.Store(&grown)
		r.live.Add(1)
		pages = grown
	}
	i := ref % refPageSize
	pages[n].last[i].Store(uint32(hour))
	pages[n].place[i].Store(uint64(slot+1)<<32 | uint64(ordinal))
	pages[n].live.Add(1)
	return ref, nil
}

// place returns the place of a series. ok is false if the ref is unknown or retired.
func (r *refTable) place(ref Ref) (slot, ordinal uint32, ok bool) {
	p := r.page(ref)
	if p == nil {
		return 0, 0, false
	}
	v := p.place[ref%refPageSize].Load()
	return uint32(v>>32) - 1, uint32(v), v != 0
}

func (r *refTable) move(ref Ref, slot, ordinal uint32) {
	if p := r.page(ref); p != nil {
		p.place[ref%refPageSize].Store(uint64(slot+1)<<32 | uint64(ordinal))
	}
}

// retire permanently frees the place of a ref.
func (r *refTable) retire(ref Ref) {
	p := r.page(ref)
	if p == nil || p.place[ref%refPageSize].Swap(0) == 0 || p.live.Add(-1) > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int(ref >> refPageBits)
	if uint32(n) == r.next>>refPageBits || p.live.Load() > 0 {
		return // the page of the next refs stays allocated
	}
	pages := append([]*refPage(nil), *r.pages.Load()...)
	pages[n] = nil
	r.pages.Store(&pages)
	r.live.Add(-1)
}

func (r *refTable) SizeBytes() int64 {
	size := r.live.Load() * refPageBytes
	if pages := r.pages.Load(); pages != nil {
		size += pointerBytes * int64(len(*pages))
	}
	return size
}

// touched returns the last hour in which the ref was active or added.
func (r *refTable) touched(ref Ref) int64 {
	if p := r.page(ref); p != nil {
		return int64(p.last[ref%refPageSize].Load())
	}
	return 0
}

// touch raises the last hour.
func (r *refTable) touch(ref Ref, hour int64) {
	p := r.page(ref)
	if p == nil {
		return
	}
	last := &p.last[ref%refPageSize]
	for {
		old := last.Load()
		if uint32(hour) <= old || last.CompareAndSwap(old, uint32(hour)) {
			return
		}
	}
}
