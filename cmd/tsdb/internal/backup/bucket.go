package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
)

// Keys of objects below the prefix. NAME/manifest.json makes a backup. Its files are filesKey with their SHA-256, so backups
// share equal files. NAME.partial/snapshot marks an unfinished backup.
const (
	filesKey  = "files/"
	locksKey  = "locks/"
	listBatch = 1000
)

// bucket keeps backups in S3-compatible storage.
type bucket struct {
	core *minio.Core
	at   bucketLocation
	opts S3Options

	lock *bucketLock // nil outside of Lock and its release

	mu    sync.Mutex
	files map[string]int64 // sizes of the files that are complete, by SHA-256; Begin reads them
}

// fault names the bucket and the object in an error.
func (b *bucket) fault(key string, err error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).Code {
	case "NoSuchKey":
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case "NoSuchBucket":
		err = fmt.Errorf("the bucket does not exist; make it first: %w", err)
	}
	return fmt.Errorf("%s%s/%s%s: %w", bucketScheme, b.at.bucket, b.at.prefix, key, err)
}

// put writes an object with one request. The service compares the content with its SHA-256.
func (b *bucket) put(ctx context.Context, key string, content []byte) error {
	sum := sha256.Sum256(content)
	_, err := b.core.PutObject(ctx, b.at.bucket, b.at.prefix+key, bytes.NewReader(content), int64(len(content)), "",
		hex.EncodeToString(sum[:]), putOptions())
	return b.fault(key, err)
}

func putOptions() minio.PutObjectOptions {
	// We name the SHA-256, so the client must not compute another one.
	return minio.PutObjectOptions{DisableContentSha256: true, ContentType: "application/octet-stream"}
}

func (b *bucket) remove(ctx context.Context, key string) error {
	return b.fault(key, b.core.RemoveObject(ctx, b.at.bucket, b.at.prefix+key, minio.RemoveObjectOptions{}))
}

// exists reports whether there is an object.
func (b *bucket) exists(ctx context.Context, key string) (bool, error) {
	_, err := b.core.StatObject(ctx, b.at.bucket, b.at.prefix+key, minio.StatObjectOptions{})
	if err = b.fault(key, err); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// list calls visit for the objects whose keys begin with prefix. Keys are relative to the location. Without recursive, objects
// below a slash are one entry that ends with it.
func (b *bucket) list(ctx context.Context, prefix string, recursive bool, visit func(key string, o *minio.ObjectInfo)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := minio.ListObjectsOptions{Prefix: b.at.prefix + prefix, Recursive: recursive, MaxKeys: listBatch}
	for o := range b.core.ListObjectsIter(ctx, b.at.bucket, opts) {
		if o.Err != nil {
			return b.fault(prefix, o.Err)
		}
		visit(strings.TrimPrefix(o.Key, b.at.prefix), &o)
	}
	return context.Cause(ctx)
}

// List implements backend.
func (b *bucket) List(ctx context.Context) (names, unfinished []string, err error) {
	err = b.list(ctx, "", false, func(key string, _ *minio.ObjectInfo) {
		name, folder := strings.CutSuffix(key, "/")
		if final, cut := strings.CutSuffix(name, partialSuffix); folder && cut && isName(final) {
			unfinished = append(unfinished, name)
		}
		if folder && isName(name) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	slices.Sort(unfinished)
	return names, unfinished, err
}

// Begin implements backend.
func (b *bucket) Begin(ctx context.Context, name, snapshot string) error {
	if found, err := b.exists(ctx, name+"/"+manifestName); err != nil || found {
		return firstError(err, fmt.Errorf("%s/%s exists already", b.at, name))
	}
	if err := b.put(ctx, name+partialSuffix+"/"+sourceName, []byte(snapshot)); err != nil {
		return err
	}
	files, err := b.listFiles(ctx)
	b.files = files
	return err
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at < 0 {
		return nil
	}
	return errs[at]
}

// listFiles returns the sizes of the stored files by their SHA-256.
func (b *bucket) listFiles(ctx context.Context) (map[string]int64, error) {
	files := map[string]int64{}
	err := b.list(ctx, filesKey, true, func(key string, o *minio.ObjectInfo) { files[strings.TrimPrefix(key, filesKey)] = o.Size })
	return files, err
}

func (b *bucket) stored(sum string, sizeBytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, found := b.files[sum]
	return found && have == sizeBytes
}

// Add implements backend. An object appears only when its upload is complete, so an interrupted upload leaves no object.
func (b *bucket) Add(ctx context.Context, a addition) (shared bool, err error) {
	f := a.file
	if a.older.sha256 != "" && b.stored(a.older.sha256, f.SizeBytes) {
		f.SHA256 = a.older.sha256
		return true, nil
	}
	in, err := os.Open(a.from)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum, sizeBytes, err := readAll(ctx, in, io.Discard, nil)
	if err != nil {
		return false, err
	}
	if sizeBytes != f.SizeBytes {
		return false, f.changed(sizeBytes)
	}
	f.SHA256 = sum
	if b.stored(sum, sizeBytes) {
		return true, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	if err := b.upload(ctx, in, f, a.progress); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[sum] = sizeBytes
	return false, nil
}

// upload stores a file under its SHA-256. Each part is in memory while it is sent, so that it can be sent again.
func (b *bucket) upload(ctx context.Context, in io.Reader, f *File, progress *Progress) (err error) {
	key := filesKey + f.SHA256
	whole, part := sha256.New(), make([]byte, min(b.opts.PartBytes, f.SizeBytes))
	read := func() ([]byte, error) {
		n, err := io.ReadFull(in, part)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		whole.Write(part[:n])
		progress.Add(int64(n))
		return part[:n], nil
	}
	if f.SizeBytes <= b.opts.PartBytes {
		content, err := read()
		if err != nil {
			return err
		}
		return firstError(f.sameSum(whole), b.put(ctx, key, content))
	}
	object := b.at.prefix + key
	id, err := b.core.NewMultipartUpload(ctx, b.at.bucket, object, putOptions())
	if err != nil {
		return b.fault(key, err)
	}
	defer func() {
		if err != nil { // the next command aborts the upload if this fails
			_ = b.core.AbortMultipartUpload(context.WithoutCancel(ctx), b.at.bucket, object, id)
		}
	}()
	var parts []minio.CompletePart
	for left := f.SizeBytes; left > 0; left -= int64(len(part)) {
		content, err := read()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		sent, err := b.core.PutObjectPart(ctx, b.at.bucket, object, id, len(parts)+1, bytes.NewReader(content), int64(len(content)),
			minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:]), DisableContentSha256: true})
		if err != nil {
			return b.fault(key, err)
		}
		parts = append(parts, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
	}
	if err := f.sameSum(whole); err != nil {
		return err
	}
	_, err = b.core.CompleteMultipartUpload(ctx, b.at.bucket, object, id, parts, putOptions())
	return b.fault(key, err)
}

// sameSum fails if the SHA-256 of the file differs from the SHA-256 of the bytes read.
func (f *File) sameSum(read hash.Hash) error {
	if sum := hex.EncodeToString(read.Sum(nil)); sum != f.SHA256 {
		return errors.New("it changed during the copy: is it in use?")
	}
	return nil
}

// Publish implements backend.
func (b *bucket) Publish(ctx context.Context, name string, manifest []byte) error {
	if err := b.lock.held(ctx); err != nil {
		return err
	}
	if err := b.put(ctx, name+"/"+manifestName, manifest); err != nil {
		return err
	}
	return b.remove(ctx, name+partialSuffix+"/"+sourceName)
}

// Open implements backend.
func (b *bucket) Open(ctx context.Context, name string, f *File) (io.ReadCloser, error) {
	key := name + "/" + manifestName
	if f != nil {
		key = filesKey + f.SHA256
	}
	r := &objectReader{ctx: ctx, bucket: b, key: key, attempts: b.opts.Attempts}
	return r, r.open()
}

// Remove implements backend. It removes files that no other backup has.
func (b *bucket) Remove(ctx context.Context, names []string, others []Entry) error {
	for _, name := range names {
		if err := b.remove(ctx, name+"/"+manifestName); err != nil {
			return err
		}
	}
	needed := map[string]bool{}
	for _, e := range others {
		if e.Err != nil {
			return fmt.Errorf("the files of removed backups stay, because it is unknown which files backup %s needs; remove the folder "+
				"%s/%s and prune again: %w", e.Name, b.at, e.Name, e.Err)
		}
		for i := range e.Manifest.Files {
			needed[e.Manifest.Files[i].SHA256] = true
		}
	}
	files, err := b.listFiles(ctx)
	if err != nil {
		return err
	}
	if err := b.lock.held(ctx); err != nil {
		return err
	}
	for sum := range files {
		if !needed[sum] {
			if err := b.remove(ctx, filesKey+sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unknown implements backend.
func (b *bucket) Unknown(ctx context.Context, m *Manifest) (faults []Fault, err error) {
	err = b.list(ctx, m.Name+"/", true, func(key string, _ *minio.ObjectInfo) {
		if path.Base(key) != manifestName {
			faults = append(faults, Fault{strings.TrimPrefix(key, m.Name+"/"), "the manifest does not name it"})
		}
	})
	return faults, err
}

// objectReader reads an object. If the connection breaks, it continues where it stopped.
type objectReader struct {
	ctx      context.Context
	bucket   *bucket
	key      string
	body     io.ReadCloser
	attempts int // that are left
	// offset is the number of bytes read so far, and sizeBytes is the size of the object.
	offset, sizeBytes int64
}

func (r *objectReader) open() error {
	var opts minio.GetObjectOptions
	if r.offset > 0 {
		if err := opts.SetRange(r.offset, 0); err != nil {
			return err
		}
	}
	body, info, _, err := r.bucket.core.GetObject(r.ctx, r.bucket.at.bucket, r.bucket.at.prefix+r.key, opts)
	if err != nil {
		return r.bucket.fault(r.key, err)
	}
	if r.body == nil {
		r.sizeBytes = info.Size
	} else {
		_ = r.body.Close() // it is broken
	}
	r.body = body
	return nil
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.offset += int64(n)
	if err == nil || errors.Is(err, io.EOF) || r.ctx.Err() != nil || r.attempts <= 1 {
		return n, err
	}
	if r.offset == r.sizeBytes {
		return n, io.EOF
	}
	r.attempts--
	if openErr := r.open(); openErr != nil {
		return n, errors.Join(err, openErr)
	}
	return n, nil
}

// Close implements io.Closer.
func (r *objectReader) Close() error { return r.body.Close() }
