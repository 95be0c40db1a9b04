package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/fault"
	"halite/storage/pebble/treefs"
)

// A permanently damaged file fails all reads of its keys. A missing file prevents the tree from opening. With
// Tree.AcceptLoss the store continues without them:
//
//	1  lost/pending.json records the losses
//	2  the files move to lost/
//	3  the manifest no longer names them
//
// After a crash in between, the next Open with AcceptLoss finds the files missing and continues at 3. The record stays until
// ConfirmLosses, because index and rollups of the lost rows must be rebuilt first, also after a crash.
const (
	lostName    = "lost"
	pendingName = "pending.json"
	TreeName    = "tree"
)

// Prefixes and suffixes of marker and table file names.
const (
	manifestMarker = treefs.MarkerPrefix + "manifest."
	formatMarker   = treefs.MarkerPrefix + "format-version."
	tableSuffix    = ".sst"
)

// asideName is the prefix of directories in lost/ that hold a whole tree, or files that the manifest does not name.
const asideName = "tree-"

// Tree is an LSM tree on disk before the store opens it.
type Tree struct {
	FS vfs.FS
	// Dir is the directory of the store.
	Dir string
	// Options are the options with which the store opens the tree.
	Options *pebble.Options
	// AcceptLoss reports whether Open may omit a damaged or missing file, named like 000012.sst. nil accepts no loss.
	AcceptLoss func(file string) bool
	Logger     *slog.Logger
	Now        func() time.Time
}

// Path returns the directory of the tree.
func (t *Tree) Path() string { return t.FS.PathJoin(t.Dir, TreeName) }

// accepts reports whether the loss of a damaged file is accepted.
func (t *Tree) accepts(d *fault.Damage) bool { return t.AcceptLoss != nil && t.AcceptLoss(d.File) }

// Exists reports whether Dir holds tables. It fails with the name of a missing or damaged file that the tables need to open.
// A tree without a table file, whose creation was interrupted, does not count: the store creates it again. A tree that was
// synced before is not one of these.
func (t *Tree) Exists() (exists bool, err error) {
	fs, tree := t.FS, t.Path()
	names, err := fs.List(tree)
	if errors.Is(err, os.ErrNotExist) {
		return false, t.checkNeverSynced()
	}
	if err != nil {
		return false, fault.Wrap("list the tree's directory", err)
	}
	newest := func(prefix string) (newest string, count int) {
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				newest, count = max(newest, name), count+1 // the numbers have leading zeros
			}
		}
		return newest, count
	}
	marker, _ := newest(manifestMarker)
	format, _ := newest(formatMarker)
	manifest, manifests := newest(treefs.ManifestPrefix)
	tables := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, tableSuffix) })
	const missing = "it is missing, but table files are there"
	switch {
	case marker == "" && !tables:
		return false, t.checkNeverSynced()
	case marker == "" && manifests == 1:
		return false, &fault.Damage{File: manifestMarker + "*", Reason: fmt.Sprintf(
			"%s; if %s is the newest manifest, create the empty file %s000001.%[2]s", missing, manifest, manifestMarker)}
	case marker == "":
		return false, &fault.Damage{File: manifestMarker + "*", Reason: missing}
	case format == "" && tables:
		return false, &fault.Damage{File: formatMarker + "*", Reason: fmt.Sprintf("%s; create the empty file %s000001.%03d", missing,
			formatMarker, t.Options.FormatMajorVersion)}
	}
	_, manifest, _ = strings.Cut(strings.TrimPrefix(marker, manifestMarker), ".")
	if !slices.Contains(names, manifest) {
		return false, &fault.Damage{File: manifest, Reason: "it is missing, but " + marker + " names it"}
	}
	return true, t.CheckManifest()
}

// checkNeverSynced returns an error if Dir says that the missing tree was synced.
func (t *Tree) checkNeverSynced() error {
	note, err := treefs.ReadNote(t.FS, t.FS.PathJoin(t.Dir, treefs.SyncedName))
	if err != nil || note.Name == "" {
		return err
	}
	return &fault.Damage{File: note.Name, Reason: fmt.Sprintf("%s holds no tables, but %s says that it did: put them "+
		"back, for instance mount their volume", t.Path(), treefs.SyncedName)}
}

// Recover reports whether Dir holds a tree to open. It refuses a damaged tree, or omits the damage that AcceptLoss accepts.
// It returns all losses that ConfirmLosses has not confirmed.
func (t *Tree) Recover() (exists bool, lost []fault.Damage, err error) {
	exists, err = t.Exists()
	if damage := (*fault.Damage)(nil); errors.As(err, &damage) && t.accepts(damage) {
		return false, nil, t.SetAside(damage.Error())
	}
	if err != nil || !exists {
		return exists, nil, err
	}
	d := t.CheckOptions()
	switch {
	case d != nil && !t.accepts(d):
		return exists, nil, fault.Wrap("open store", d)
	case d != nil:
		t.Logger.Warn("the tree's options file is damaged, and the loss is accepted; moving it to lost/", "file", d.File,
			"reason", d.Reason)
		if err := t.moveToLost(d.File); err != nil {
			return exists, nil, err
		}
	}
	lost, err = t.acceptLosses()
	return exists, lost, err
}
