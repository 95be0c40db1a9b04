package backup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"halite/storage"
)

// errLockLost ends a command whose lock another command may have taken over.
var errLockLost = errors.New("the lock of the bucket is lost: the command could not renew it in time; run it again")

// renewals is the number of renewals of a lock within its timeout. A command stops after renewals-2 failures.
const renewals = 10

// bucketLock is an object below locksKey. A command puts its own object, then lists all of them. Listings of S3 show every object
// whose put has ended. So of two commands at least one sees the other and gives way. Ages compare times of the service only.
type bucketLock struct {
	bucket *bucket
	key    string
	body   []byte

	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

// lockBody says who holds a lock.
type lockBody struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// Lock implements backend.
func (b *bucket) Lock(ctx context.Context) (context.Context, func() error, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, err
	}
	body, err := json.Marshal(lockBody{host, os.Getpid()})
	if err != nil {
		return nil, nil, err
	}
	l := &bucketLock{bucket: b, key: locksKey + rand.Text(), body: body}
	if err := b.put(ctx, l.key, l.body); err != nil {
		return nil, nil, err
	}
	if err := firstError(l.check(ctx), b.clean(ctx)); err != nil {
		return nil, nil, errors.Join(err, b.remove(context.WithoutCancel(ctx), l.key))
	}
	locked, cancel := context.WithCancelCause(ctx)
	l.cancel, b.lock = cancel, l
	l.work.Go(func() { l.renew(locked) })
	return locked, l.release, nil
}

// check reads the locks of other commands. It removes expired ones.
func (l *bucketLock) check(ctx context.Context) error {
	locks := map[string]time.Time{}
	err := l.bucket.list(ctx, locksKey, true, func(key string, o *minio.ObjectInfo) { locks[key] = o.LastModified })
	if err != nil {
		return err
	}
	now, found := locks[l.key]
	if !found {
		return fmt.Errorf("%s does not list an object that was just written: backups need listings that are up to date", l.bucket.at)
	}
	for key, at := range locks {
		left := l.bucket.opts.LockTimeout - now.Sub(at)
		if key == l.key {
			continue
		}
		if left > 0 {
			return fmt.Errorf("%s: %w by %s; if that command was killed, its lock ends in %s", l.bucket.at, storage.ErrLocked,
				l.bucket.holder(ctx, key), left.Round(time.Second))
		}
		if err := l.bucket.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// holder describes who holds a lock.
func (b *bucket) holder(ctx context.Context, key string) string {
	unknown := "the holder of " + path.Base(key)
	in, _, _, err := b.core.GetObject(ctx, b.at.bucket, b.at.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return unknown
	}
	defer in.Close()
	var body lockBody
	if json.NewDecoder(io.LimitReader(in, 4096)).Decode(&body) != nil {
		return unknown
	}
	return fmt.Sprintf("process %d on %q", body.PID, body.Host)
}

// renew writes the lock again until ctx ends. If this fails for too long, the context of the lock ends.
func (l *bucketLock) renew(ctx context.Context) {
	tick := time.NewTicker(l.bucket.opts.LockTimeout / renewals)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, l.bucket.opts.LockTimeout/renewals)
		err := l.bucket.put(limited, l.key, l.body)
		cancel()
		if err == nil && began.Sub(last) < l.bucket.opts.LockTimeout {
			last = began
			continue
		}
		if time.Since(last) > l.bucket.opts.LockTimeout*(renewals-2)/renewals {
			l.cancel(errLockLost)
			return
		}
	}
}

// held fails if another command has taken over the lock, for example because this machine was suspended.
func (l *bucketLock) held(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	found, err := l.bucket.exists(ctx, l.key)
	if err == nil && !found {
		err = errLockLost
	}
	return err
}

// release removes what the command has left unfinished, and its lock.
func (l *bucketLock) release() error {
	l.cancel(nil)
	l.work.Wait()
	l.bucket.lock = nil
	ctx, cancel := context.WithTimeout(context.Background(), l.bucket.opts.LockTimeout)
	defer cancel()
	if err := l.held(ctx); err != nil {
		return err
	}
	return errors.Join(l.bucket.clean(ctx), l.bucket.remove(ctx, l.key))
}

// clean removes unfinished backups, their snapshots and their unfinished uploads. Files that are complete stay: the next backup
// shares them, and a prune removes those without a backup.
func (b *bucket) clean(ctx context.Context) error {
	_, unfinished, err := b.List(ctx)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		key := name + "/" + sourceName
		if err := b.removeSnapshot(ctx, key); err != nil {
			return err
		}
		if err := b.remove(ctx, key); err != nil {
			return err
		}
	}
	for {
		uploads, err := b.core.ListMultipartUploads(ctx, b.at.bucket, b.at.prefix+filesKey, "", "", "", listBatch)
		if noUploads(err) {
			return nil
		}
		if err != nil {
			return b.fault(filesKey, err)
		}
		for _, u := range uploads.Uploads {
			if err := b.core.AbortMultipartUpload(ctx, b.at.bucket, u.Key, u.UploadID); err != nil && !noUploads(err) {
				return b.fault(filesKey, err)
			}
		}
		if len(uploads.Uploads) == 0 || !uploads.IsTruncated {
			return nil
		}
	}
}

// noUploads reports whether the service has no such uploads, or does not support them.
func noUploads(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == "NoSuchUpload" || code == "NotImplemented"
}

// removeSnapshot removes the snapshot that an unfinished backup names, if it is on this machine.
func (b *bucket) removeSnapshot(ctx context.Context, key string) error {
	in, _, _, err := b.core.GetObject(ctx, b.at.bucket, b.at.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return b.fault(key, err)
	}
	defer in.Close()
	snapshot, err := io.ReadAll(io.LimitReader(in, 4096))
	if err != nil {
		return b.fault(key, err)
	}
	if !isSnapshot(string(snapshot)) {
		return nil
	}
	return RemoveSnapshot(string(snapshot))
}
