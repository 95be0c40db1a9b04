package ingest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/storage/storagetest/crashfs"
)

// kindsCut cuts the power at an operation of the file system. It keeps the samples that were acknowledged before the cut.
type kindsCut struct {
	fs      *vfs.MemFS
	links   sync.RWMutex
	left    atomic.Int64 // operations until the cut
	mu      sync.Mutex   // guards acked, crashed and known
	acked   []kindsOf    // by series
	crashed *vfs.MemFS
	known   []kindsOf // acknowledged at the cut
}

func (c *kindsCut) wrap(rng *rand.Rand) vfs.FS {
	c.left.Store(1 << 40)
	percent, seed := []int{0, 30, 70, 100}[rng.IntN(4)], rng.Uint64()
	return errorfs.Wrap(crashfs.FS{FS: c.fs, Clones: &c.links}, errorfs.InjectorFunc(func(errorfs.Op) error {
		if c.left.Add(-1) != 0 {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range c.acked {
			c.known = append(c.known, maps.Clone(k))
		}
		c.links.Lock()
		defer c.links.Unlock()
		c.crashed = c.fs.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 12)),
		})
		return nil
	}))
}

// happened reports whether the power is cut. Background flushes and checkpoints may cut it, too.
func (c *kindsCut) happened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed != nil
}

// ack records all writes of the model so far as acknowledged.
func (c *kindsCut) ack(m *kindsModel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = c.acked[:0]
	for _, k := range m.want {
		c.acked = append(c.acked, maps.Clone(k))
	}
}

// TestKindsSurvivePowerCut cuts the power during writes, flushes and checkpoints. The replay has little memory, so it flushes
// meanwhile. It restores every acknowledged sample, and no sample that nobody wrote.
func TestKindsSurvivePowerCut(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 8))
			m := newKindsModel(rng, 1+rng.IntN(12))
			cut := &kindsCut{fs: vfs.NewCrashableMem()}
			c := ingesttest.NewClock()
			r := openRig(t, cut.wrap(rng), c, manyExemplars)
			cut.left.Store(int64(1 + rng.IntN(400)))
			for !cut.happened() {
				switch rng.IntN(5) {
				case 0:
					r.doStep()
					c.Advance(time.Duration(rng.IntN(60)) * time.Minute)
				case 1:
					r.flush()
				default:
					m.write(t, r)
				}
				cut.ack(m)
			}
			r.close()
			r = openRig(t, cut.crashed, c, func(o *Options) {
				manyExemplars(o)
				o.Head.BytesMax, o.Head.FlushBytes = 16<<10, 4<<10
			})
			m.checkBounds(t, r, cut.known)
			r.flush()
			m.checkBounds(t, r, cut.known)
			r.close()
		})
	}
}

// checkBounds checks that each series has at least the acknowledged samples and at most the written ones. A time that was
// written again after the cut may have either value.
func (m *kindsModel) checkBounds(t *testing.T, r *rig, acked []kindsOf) {
	t.Helper()
	for n, ls := range m.labels {
		got, err := r.readKinds(ls)
		require.NoError(t, err)
		for at := range got {
			require.Contains(t, m.want[n], at, "%s", ls)
		}
		if n >= len(acked) {
			continue // nothing was acknowledged
		}
		for at, v := range acked[n] {
			require.Contains(t, got, at, "%s", ls)
			require.Contains(t, []string{v, m.want[n][at]}, got[at], "%s at %s", ls, at)
		}
	}
}
