package pebble_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
)

// smallStore returns a closed store with the given number of rows, and a function that opens it.
func smallStore(t *testing.T, rows int) (fs *vfs.MemFS, open func(accept bool) (*pebble.Store, error)) {
	fs = vfs.NewMem()
	s := openStore(t, fs)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Load(t.Context(), faultRows(0, rows)))
	require.NoError(t, s.Close())
	return fs, func(accept bool) (*pebble.Store, error) {
		return pebble.Open(pebble.Options{Dir: "/data", FS: fs, MemtableBytes: 256 << 10, CacheBytes: 1 << 20,
			AcceptLoss: func(string) bool { return accept }})
	}
}

// treeFile returns the name of the tree's file with a prefix.
func treeFile(t *testing.T, fs vfs.FS, prefix string) string {
	names, err := fs.List("/data/tree")
	require.NoError(t, err)
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	t.Fatalf("no file %s", prefix)
	return ""
}

func writeWhole(t *testing.T, fs vfs.FS, path string, content []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

// TestTreeFilesAreNamed damages and removes the files that the tree needs to open. The error of Open names the file and Open
// changes no other. The operator can accept the loss without deleting files.
func TestTreeFilesAreNamed(t *testing.T) {
	flip := func(at int) func(*testing.T, vfs.FS, string) {
		return func(t *testing.T, fs vfs.FS, path string) {
			content := readFile(t, fs, path)
			content[at] ^= 4
			writeWhole(t, fs, path, content)
		}
	}
	remove := func(t *testing.T, fs vfs.FS, path string) { require.NoError(t, fs.Remove(path)) }
	for _, c := range []struct {
		name, prefix, named, says string
		harm                      func(t *testing.T, fs vfs.FS, path string)
		settings                  bool // the accepted loss keeps the tables
	}{
		{"manifest damaged", "MANIFEST-", "MANIFEST-", "it has no readable record", flip(20), false},
		{"manifest missing", "MANIFEST-", "MANIFEST-", "it is missing, but marker.manifest.", remove, false},
		{"marker of the manifest missing", "marker.manifest.", "marker.manifest.*", "create the empty file", remove, false},
		{"marker of the format missing", "marker.format-version.", "marker.format-version.*", "create the empty file", remove,
			false},
		{"options damaged", "OPTIONS-", "OPTIONS-", "comparer name", func(t *testing.T, fs vfs.FS,
			path string) {
			content := strings.Replace(string(readFile(t, fs, path)), "comparer=halite", "comparer=malite", 1)
			writeWhole(t, fs, path, []byte(content))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, open := smallStore(t, 100)
			c.harm(t, fs, "/data/tree/"+treeFile(t, fs, c.prefix))
			before, err := fs.List("/data/tree")
			require.NoError(t, err)
			_, err = open(false)
			var fault *fault.Damage
			require.ErrorAs(t, err, &fault)
			require.ErrorIs(t, err, storage.ErrCorrupt)
			require.Contains(t, fault.File, c.named)
			require.ErrorContains(t, err, c.says)
			after, err := fs.List("/data/tree")
			require.NoError(t, err)
			require.ElementsMatch(t, before, after)

			s, err := open(true)
			require.NoError(t, err)
			tables, err := s.Tables(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.settings, len(tables) > 0)
			require.NoError(t, s.Close())
			if c.settings {
				aside, err := fs.List("/data/lost")
				require.NoError(t, err)
				require.Len(t, aside, 1)
				return
			}
			aside, err := fs.List("/data/lost/tree-0001/tree")
			require.NoError(t, err)
			require.ElementsMatch(t, before, aside)
		})
	}
}

// TestMarkersCanBeMade follows the advice of the error: markers are empty files.
func TestMarkersCanBeMade(t *testing.T) {
	for _, prefix := range []string{"marker.manifest.", "marker.format-version."} {
		fs, open := smallStore(t, 100)
		require.NoError(t, fs.Remove("/data/tree/"+treeFile(t, fs, prefix)))
		_, err := open(false)
		var fault *fault.Damage
		require.ErrorAs(t, err, &fault)
		name := fault.Reason[strings.LastIndex(fault.Reason, " ")+1:]
		require.True(t, strings.HasPrefix(name, prefix), fault.Reason)
		writeWhole(t, fs, "/data/tree/"+name, nil)
		s, err := open(false)
		require.NoError(t, err)
		table, err := s.Table(t.Context(), storage.TableData)
		require.NoError(t, err)
		keys, err := readKeys(t, table)
		require.NoError(t, err)
		require.Len(t, keys, 100)
		require.NoError(t, s.Close())
	}
}

// TestReadOnlyChangesNothing opens a store read-only. Open creates, changes or deletes no file, even if it fails.
func TestReadOnlyChangesNothing(t *testing.T) {
	fs, _ := smallStore(t, 100)
	before, err := fs.List("/data/tree")
	require.NoError(t, err)
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, ReadOnly: true})
	require.NoError(t, err)
	table, err := s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	keys, err := readKeys(t, table)
	require.NoError(t, err)
	require.Len(t, keys, 100)
	require.Error(t, table.Apply(t.Context(), faultRows(0, 1)))
	require.Error(t, table.Load(t.Context(), faultRows(0, 1)))
	require.NoError(t, s.Close())
	after, err := fs.List("/data/tree")
	require.NoError(t, err)
	require.ElementsMatch(t, before, after)
	_, err = pebble.Open(pebble.Options{Dir: "/none", FS: fs, ReadOnly: true})
	require.ErrorIs(t, err, storage.ErrNoTable)
	_, err = fs.Stat("/none")
	require.Error(t, err, "nothing may be created")
	require.NoError(t, fs.MkdirAll("/begun/tree", 0o700)) // a process was killed before it had made the tree
	_, err = pebble.Open(pebble.Options{Dir: "/begun", FS: fs, ReadOnly: true})
	require.ErrorIs(t, err, storage.ErrNoTable)
}
