package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"halite/storage"
)

const (
	rowPrefix    = "lease#"
	holderPrefix = 'h'
	holderMax    = 256
	// TTLDefault is the duration of a lease after its last renewal.
	TTLDefault = 90 * time.Second
	// skewMax bounds the difference between the clocks of two processes. A lease that ends later than a TTL and this time from now
	// was taken before a clock was set back. It is free.
	skewMax = 10 * time.Minute
)

// Options configure New. Meta, Name and Holder are required.
type Options struct {
	// Meta is the table storage.TableMeta.
	Meta storage.Table
	// Name names the lease. Holder names the process; no two processes may have the same Holder.
	Name, Holder string
	// TTL is the duration of the lease after its last renewal; 0 means 90 s. The caller renews the lease three times per
	// TTL.
	TTL time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Validate returns an error if an option is missing or out of range.
func (o Options) Validate() error {
	if o.Meta == nil || o.Name == "" || o.Holder == "" || len(o.Holder) > holderMax || o.TTL < 0 {
		return fmt.Errorf("lease: Meta, Name and Holder are required, Holder has at most %d bytes, and TTL must not be negative",
			holderMax)
	}
	return nil
}

// Lease is one process's access to a lease.
type Lease struct {
	opts Options
	key  []byte
}

// New returns a Lease. It makes no request.
func New(opts Options) (*Lease, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = TTLDefault
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Lease{opts: opts, key: []byte(rowPrefix + opts.Name)}, nil
}

// Hold takes the lease if it is free, and renews it if this process holds it. It reports whether this process now holds the
// lease for a TTL.
func (l *Lease) Hold(ctx context.Context) (bool, error) {
	nowMs := l.opts.Now().UnixMilli()
	acquire := storage.RowMutation{Entries: []storage.Entry{
		{Kind: storage.DeleteFamily, Family: storage.FamilyMeta},
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: l.qualifier(), TsMs: nowMs + l.opts.TTL.Milliseconds()},
	}}
	// This process may also hold the lease because of a call whose reply was lost.
	renewed, err := l.opts.Meta.CheckAndApply(ctx, l.key, l.mine(), acquire, storage.RowMutation{})
	if err != nil {
		return false, fmt.Errorf("renew lease %s: %w", l.opts.Name, err)
	}
	if renewed {
		return true, nil
	}
	unexpired := storage.Filter{Families: []string{storage.FamilyMeta}, FromMs: nowMs,
		ToMs: nowMs + (l.opts.TTL + skewMax).Milliseconds() + 1}
	taken, err := l.opts.Meta.CheckAndApply(ctx, l.key, unexpired, storage.RowMutation{}, acquire)
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", l.opts.Name, err)
	}
	return !taken, nil
}

// Release ends the lease if this process holds it.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.opts.Meta.CheckAndApply(ctx, l.key, l.mine(), storage.RowMutation{Entries: []storage.Entry{
		{Kind: storage.DeleteFamily, Family: storage.FamilyMeta},
	}}, storage.RowMutation{})
	if err != nil {
		return fmt.Errorf("release lease %s: %w", l.opts.Name, err)
	}
	return nil
}

func (l *Lease) qualifier() []byte { return append([]byte{holderPrefix}, l.opts.Holder...) }

// mine is the filter for the cell of this process's lease. The cell stays after the lease's end until another process takes
// the lease.
func (l *Lease) mine() storage.Filter {
	return storage.Filter{Families: []string{storage.FamilyMeta}, QualifierStart: l.qualifier(),
		QualifierEnd: append(slices.Clone(l.qualifier()), 0)}
}
