package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/crypto/bcrypt"
)

// wrongMax bounds the wrong passwords in the cache.
const wrongMax = 1024

// digest is a hash over a user, the configured hash and a password. So passwords need not stay in memory.
type digest [sha256.Size]byte

// passwords checks passwords. A check of bcrypt takes about 50 ms of a CPU, so it caches the results.
type passwords struct {
	key   []byte // of the digests
	slots chan struct{}
	queue atomic.Int64
	most  int64 // of queue

	mu    sync.RWMutex
	right map[string]digest            // the last right password of each user
	wrong *lru.Cache[digest, struct{}] // has a lock of its own
	// checks are the running checks. Each channel closes at the end of its check.
	checks map[digest]chan struct{}
}

func newPasswords(o *Options) *passwords {
	p := &passwords{
		key: make([]byte, sha256.Size), slots: make(chan struct{}, o.PasswordChecksMax),
		most: int64(o.PasswordChecksMax + o.PasswordQueueMax), right: map[string]digest{},
		checks: map[digest]chan struct{}{},
	}
	rand.Read(p.key)                                 // never fails
	p.wrong, _ = lru.New[digest, struct{}](wrongMax) // fails only for a size below 1
	return p
}

// check reports whether a password is right. If too many passwords wait for a check, ok is false and busy is true. Requests with
// the same password share one check, so that many clients of a user can log in at once after a reload.
func (p *passwords) check(ctx context.Context, user, password string, hash []byte) (ok, busy bool) {
	d := p.digest(user, password, hash)
	for {
		if ok, known := p.known(user, d); known {
			return ok, false
		}
		running, end := p.begin(d)
		if end != nil {
			defer end()
			return p.compare(ctx, user, password, hash, d)
		}
		select {
		case <-running:
		case <-ctx.Done():
			return false, true
		}
	}
}

// begin registers a check. If another request runs the same check, end is nil, and running closes at the end of that check.
func (p *passwords) begin(d digest) (running <-chan struct{}, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if running := p.checks[d]; running != nil {
		return running, nil
	}
	mine := make(chan struct{})
	p.checks[d] = mine
	return nil, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.checks, d)
		close(mine)
	}
}

// compare waits for a slot, compares a password with its hash, and caches the result.
func (p *passwords) compare(ctx context.Context, user, password string, hash []byte, d digest) (ok, busy bool) {
	defer p.queue.Add(-1)
	if p.queue.Add(1) > p.most {
		return false, true
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return false, true
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil {
		p.wrong.Add(d, struct{}{})
		return false, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.right[user] = d
	return true, false
}

// known looks up a cached result.
func (p *passwords) known(user string, d digest) (ok, known bool) {
	p.mu.RLock()
	right, any := p.right[user]
	p.mu.RUnlock()
	if any && subtle.ConstantTimeCompare(right[:], d[:]) == 1 {
		return true, true
	}
	return false, p.wrong.Contains(d)
}

// retain removes the users that no longer exist.
func (p *passwords) retain(users map[string][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for user := range p.right {
		if users[user] == nil {
			delete(p.right, user)
		}
	}
}

// digest depends on the configured hash, so a new password invalidates cached results.
func (p *passwords) digest(user, password string, hash []byte) digest {
	b := make([]byte, 0, 256)
	b = append(b, p.key...)
	b = append(binary.AppendUvarint(b, uint64(len(user))), user...)
	b = append(binary.AppendUvarint(b, uint64(len(hash))), hash...)
	return sha256.Sum256(append(b, password...))
}
