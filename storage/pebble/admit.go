package pebble

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"halite/storage"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/health"
	"halite/storage/pebble/recovery"
	"halite/storage/pebble/treefs"
)

// admit decides whether to open the tree (exists) or to create it. It changes Dir only if the operator accepted a loss.
func (s *Store) admit(tree *recovery.Tree) (exists bool, err error) {
	exists, s.lost, err = tree.Recover()
	if err != nil || s.opts.Admit == nil {
		return exists, err
	}
	if !exists {
		_, err := s.opts.Admit(nil)
		return false, err
	}
	how, err := s.callAdmit()
	if err != nil {
		return false, err
	}
	switch how {
	case AdmitOlder:
		return true, tree.SetUnknownAside()
	case AdmitNone:
		return false, tree.SetAside("the tables belong to another log")
	}
	return true, nil
}

// callAdmit calls Options.Admit with a read-only view of the tables.
func (s *Store) callAdmit() (how Admission, err error) {
	opts := s.opts
	opts.ReadOnly, opts.Registerer, opts.Admit, opts.FS = true, nil, nil, treefs.ReadOnly(s.opts.FS)
	opts.Logger = slog.New(slog.DiscardHandler) // Open will log the same events
	view, err := openLocked(opts, health.New(opts.Logger, opts.Now), io.NopCloser(nil))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	view.lost = s.lost
	return s.opts.Admit(view)
}

// admitNew calls Options.Admit for a store without a directory, before the directory is created.
func admitNew(opts *Options) error {
	_, err := opts.FS.Stat(opts.FS.PathJoin(opts.Dir, recovery.TreeName))
	switch {
	case errors.Is(err, os.ErrNotExist) && opts.ReadOnly:
		return fmt.Errorf("%w: %s holds no tables", storage.ErrNoTable, opts.Dir)
	case errors.Is(err, os.ErrNotExist) && opts.Admit != nil:
		_, err := opts.Admit(nil)
		return err
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return fault.Wrap("look for the tables", err)
}

// Lost returns the losses that this start and earlier ones accepted, until ConfirmLosses.
func (s *Store) Lost() []fault.Damage { return s.lost }

// ConfirmLosses records that index and rollups now match the losses that Lost returns.
func (s *Store) ConfirmLosses() error {
	if len(s.lost) == 0 {
		return nil
	}
	if err := s.onDisk.ConfirmLosses(); err != nil {
		return err
	}
	s.lost = nil
	return nil
}

// logLosses logs the losses that earlier starts accepted.
func (s *Store) logLosses() {
	for i := range s.lost {
		s.health.Report("accepted the loss of rows: "+s.lost[i].File, slog.LevelWarn, "loss", s.lost[i].Error())
	}
}
