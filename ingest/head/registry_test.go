package head_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
)

func encoding(n int) []byte { return fmt.Appendf(nil, "series number %d", n) }

func TestRegistryAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	g := head.NewRegistry()
	want := map[int]uint32{}
	for range 10 {
		for range 1500 {
			n := rng.IntN(5000)
			ref := uint32(1 + n/2) // two encodings lead to each ref
			g.Insert(g.Hash(encoding(n)), ref)
			want[n] = ref
		}
		require.Equal(t, len(want), g.Len())
		gone := uint32(rng.IntN(10))
		remove(g, want, gone)
		for n, ref := range want {
			if ref%10 == gone {
				delete(want, n)
			}
		}
		cursor := g.Cursor()
		for n := range 5000 {
			found, ok := g.Find(g.Hash(encoding(n)))
			followed, okToo := cursor.Find(g.Hash(encoding(n)))
			if found != want[n] || followed != want[n] || ok != (want[n] != 0) || okToo != ok {
				t.Fatalf("encoding %d leads to %d and %d, want %d", n, found, followed, want[n])
			}
		}
	}
}

// remove removes the encodings of all refs that end in the digit, slice by slice. It adds an encoding between two
// slices.
func remove(g *head.Registry, want map[int]uint32, digit uint32) {
	var refs []uint32
	for ref := range uint32(3000) {
		if ref%10 == digit {
			refs = append(refs, ref)
		}
	}
	removal := g.StartRemoval(refs)
	for n := 0; removal.Scan(); n++ {
		g.Insert(g.Hash(encoding(n)), uint32(1+n/2))
		want[n] = uint32(1 + n/2)
	}
	for slice := range slices.Chunk(refs, 17) {
		last := 2*int(slice[len(slice)-1]) - 1 // an encoding of a ref of the slice
		g.Insert(g.Hash(encoding(last)), slice[len(slice)-1])
		removal.Remove(slice)
	}
	removal.Close()
}

// TestRegistryShrinks removes nearly all series of a large registry.
func TestRegistryShrinks(t *testing.T) {
	g := head.NewRegistry()
	refs := make([]uint32, 100_000)
	for n := range refs {
		refs[n] = uint32(n + 1)
		g.Insert(g.Hash(encoding(n)), refs[n])
	}
	removal := g.StartRemoval(refs[100:])
	for removal.Scan() {
	}
	removal.Remove(refs[100:])
	removal.Close()
	require.Equal(t, 100, g.Len())
	for n := range refs {
		ref, ok := g.Find(g.Hash(encoding(n)))
		require.Equal(t, n < 100, ok)
		require.True(t, !ok || ref == refs[n])
	}
}

// threadTime is the processor time of the calling thread, on Linux.
func threadTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(1, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRemoval removes half of a million series and reports the longest step, in processor time: the longest time
// that a caller waits.
func BenchmarkRemoval(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		b.StopTimer()
		g := head.NewRegistry()
		var refs []uint32
		for n := range uint32(1_000_000) {
			g.Insert(g.Hash(encoding(int(n))), n+1)
			if n%2 == 0 {
				refs = append(refs, n+1)
			}
		}
		b.StartTimer()
		longest := time.Duration(0)
		timed := func(fn func()) {
			start := threadTime(b)
			fn()
			longest = max(longest, threadTime(b)-start)
		}
		var removal *head.Removal
		timed(func() { removal = g.StartRemoval(refs) })
		for more := true; more; {
			timed(func() { more = removal.Scan() })
		}
		for slice := range slices.Chunk(refs, 2048) {
			timed(func() { removal.Remove(slice) })
		}
		timed(removal.Close)
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
	}
}

// TestCursorFollowsAnyOrder repeats orders, so that predictions arise, hit and miss.
func TestCursorFollowsAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	g := head.NewRegistry()
	keys := make([]head.Key, 500)
	for n := range keys {
		keys[n] = g.Hash(encoding(n))
		g.Insert(keys[n], uint32(n+1))
	}
	for range 50 {
		order := rng.Perm(len(keys))
		for range 2 {
			cursor := g.Cursor()
			for _, n := range order {
				ref, ok := cursor.Find(keys[n])
				require.True(t, ok)
				require.Equal(t, uint32(n+1), ref)
			}
			_, ok := cursor.Find(g.Hash(encoding(1_000_000)))
			require.False(t, ok)
		}
	}
}

func TestRegistryFindsDuringInsert(t *testing.T) {
	g := head.NewRegistry()
	const all = 10_000
	var running sync.WaitGroup
	for range 3 {
		running.Add(1)
		go func() {
			defer running.Done()
			cursor := g.Cursor()
			for found := 0; found < all; {
				key := g.Hash(encoding(found))
				ref, ok := cursor.Find(key)
				if !ok {
					continue
				}
				if ref != uint32(found+1) {
					t.Errorf("encoding %d leads to %d", found, ref)
					return
				}
				found++
			}
		}()
	}
	for n := range all {
		g.Insert(g.Hash(encoding(n)), uint32(n+1))
	}
	running.Wait()
}

// TestCursorDuringReuse follows kept encodings whose successors were removed, while the successors' entries are filled
// again.
func TestCursorDuringReuse(t *testing.T) {
	g := head.NewRegistry()
	const all = 20_000
	refs := make([]uint32, all)
	cursor := g.Cursor()
	for n := range refs {
		refs[n] = uint32(n + 1)
		g.Insert(g.Hash(encoding(n)), refs[n])
		cursor.Find(g.Hash(encoding(n)))
	}
	kept := func(n int) bool { return n%3 == 0 }
	removal := g.StartRemoval(refs)
	for removal.Scan() {
	}
	for n, ref := range refs {
		if !kept(n) {
			removal.Remove([]uint32{ref})
		}
	}
	removal.Close()

	var running sync.WaitGroup
	running.Go(func() {
		cursor := g.Cursor()
		for n := range refs {
			if ref, ok := cursor.Find(g.Hash(encoding(n))); kept(n) && !ok || ok && ref != refs[n] {
				t.Errorf("encoding %d leads to %d, %t", n, ref, ok)
			}
		}
	})
	for n := range refs {
		if !kept(n) {
			g.Insert(g.Hash(encoding(n)), refs[n])
		}
	}
	running.Wait()
}

// BenchmarkCursor reports the time of one look-up in the order seen before, and in a new order each time.
func BenchmarkCursor(b *testing.B) {
	g := head.NewRegistry()
	keys := make([]head.Key, 1_000_000)
	for n := range keys {
		keys[n] = g.Hash(encoding(n))
		g.Insert(keys[n], uint32(n+1))
	}
	b.Run("same order", func(b *testing.B) {
		cursor := g.Cursor()
		n := 0
		for b.Loop() {
			if _, ok := cursor.Find(keys[n]); !ok {
				b.Fatal("not found")
			}
			n = (n + 1) % len(keys)
		}
	})
	b.Run("random order", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		cursor := g.Cursor()
		for b.Loop() {
			if _, ok := cursor.Find(keys[rng.IntN(len(keys))]); !ok {
				b.Fatal("not found")
			}
		}
	})
}

// TestFindAllIsFind looks up keys together and one by one, with unknown ones among them.
func TestFindAllIsFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	g := head.NewRegistry()
	key := func(n int) head.Key { return g.Hash(encoding(n)) }
	for n := range 5000 {
		g.Insert(key(n), uint32(n+1))
	}
	for range 300 {
		c := g.Cursor()
		keys, want := make([]head.Key, 1+rng.IntN(head.FindBatch)), []uint32{}
		for i := range keys {
			n := rng.IntN(5020)
			keys[i] = key(n)
			if n < 5000 && len(want) == i {
				want = append(want, uint32(n+1))
			}
		}
		refs := make([]uint32, len(keys))
		require.Equal(t, len(want) == len(keys), c.FindAll(keys, refs, nil))
		require.Equal(t, want, refs[:len(want)])
	}
}
