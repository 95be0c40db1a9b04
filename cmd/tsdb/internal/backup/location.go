package backup

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	bucketScheme    = "s3://"
	endpointDefault = "https://s3.amazonaws.com"
)

// S3Options say how to reach a bucket. Zero values mean the defaults.
type S3Options struct {
	// Endpoint is the URL of the service, without a path (https://s3.amazonaws.com).
	Endpoint string
	// Region is the region of the bucket. If it is empty, the client asks the service.
	Region string
	// PathStyle puts the bucket into the path of URLs, not into the host. Otherwise this depends on the endpoint.
	PathStyle bool
	// CredentialsFile is a file in the format of ~/.aws/credentials. If it is empty, the environment variables AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are used.
	CredentialsFile string
	// Profile is the section of CredentialsFile (AWS_PROFILE or default).
	Profile string
	// Attempts is the number of attempts of a request before it fails (10).
	Attempts int
	// Concurrency is the number of files that are copied at once (4).
	Concurrency int
	// PartBytes is the size of one request of an upload (16 MiB, at least 5 MiB). Larger files have several parts.
	PartBytes int64
	// LockTimeout is how long the lock of a killed command lasts (5 minutes). A running command renews its lock.
	LockTimeout time.Duration
	// Transport sends the requests; nil is a copy of the default one.
	Transport http.RoundTripper
}

const partBytesMin = 5 << 20

// Validate lists every fault.
func (o *S3Options) Validate() error {
	var faults []error
	if u, err := url.Parse(o.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" { // the error must not repeat a password
		faults = append(faults, errors.New("--s3.endpoint: write a URL without user and path, for example "+endpointDefault))
	}
	if o.Attempts < 0 || o.Concurrency < 0 || o.LockTimeout < 0 {
		faults = append(faults, errors.New("--s3.attempts, the concurrency and the lock timeout cannot be negative"))
	}
	if o.PartBytes != 0 && o.PartBytes < partBytesMin {
		faults = append(faults, fmt.Errorf("parts of %d bytes are smaller than S3 allows: %d", o.PartBytes, partBytesMin))
	}
	return errors.Join(faults...)
}

// bucketLocation is a parsed s3://BUCKET/PREFIX.
type bucketLocation struct {
	bucket string
	// prefix is empty or ends with a slash.
	prefix string
}

func (l bucketLocation) String() string {
	return strings.TrimSuffix(bucketScheme+l.bucket+"/"+l.prefix, "/")
}

// parseLocation parses s3://BUCKET/PREFIX. Errors do not repeat the text, which may hold a password by mistake.
func parseLocation(text string) (l bucketLocation, err error) {
	rest, found := strings.CutPrefix(text, bucketScheme)
	bucket, prefix, _ := strings.Cut(rest, "/")
	switch prefix = strings.Trim(prefix, "/"); {
	case !found:
		return l, errors.New("the location of a bucket begins with s3://, for example s3://backups/halite")
	case strings.ContainsAny(bucket, "@:"):
		return l, errors.New("the location s3://… takes no user, password or port: credentials come from the environment or " +
			"--s3.credentials-file, the host from --s3.endpoint")
	case bucket == "" || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
		return l, fmt.Errorf("%q is not the name of a bucket: write s3://BUCKET/PREFIX, for example s3://backups/halite", bucket)
	case strings.ContainsAny(prefix, "?#\\") || strings.Contains("/"+prefix+"/", "//") && prefix != "" ||
		strings.Contains("/"+prefix+"/", "/../") || strings.Contains("/"+prefix+"/", "/./"):
		return l, errors.New("the prefix of s3://BUCKET/PREFIX is a path without ?, #, backslash and empty parts, for example " +
			"s3://backups/halite")
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucketLocation{bucket, prefix}, nil
}

// newBucket returns the backend of a location. It sends no request.
func newBucket(location string, opts S3Options) (*bucket, error) {
	l, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	opts.Endpoint = cmp.Or(opts.Endpoint, endpointDefault)
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.Attempts = cmp.Or(opts.Attempts, 10)
	opts.Concurrency = cmp.Or(opts.Concurrency, 4)
	opts.PartBytes = cmp.Or(opts.PartBytes, 16<<20)
	opts.LockTimeout = cmp.Or(opts.LockTimeout, 5*time.Minute)
	secrets, err := opts.credentials()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(opts.Endpoint)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupAuto
	if opts.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{Creds: secrets, Secure: endpoint.Scheme == "https", Region: opts.Region,
		BucketLookup: lookup, MaxRetries: opts.Attempts, Transport: opts.Transport})
	if err != nil {
		return nil, fmt.Errorf("--s3.endpoint: %w", err)
	}
	return &bucket{core: core, at: l, opts: opts}, nil
}

// credentials returns the keys of the file or of the environment. Without keys, the client would send unsigned requests.
func (o *S3Options) credentials() (*credentials.Credentials, error) {
	secrets, from := credentials.NewEnvAWS(), "the environment variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	if o.CredentialsFile != "" {
		if _, err := os.Stat(o.CredentialsFile); err != nil {
			return nil, fmt.Errorf("--s3.credentials-file: %w", err)
		}
		secrets, from = credentials.NewFileAWSCredentials(o.CredentialsFile, o.Profile), "--s3.credentials-file "+o.CredentialsFile
	}
	value, err := secrets.GetWithContext(nil)
	if err != nil { // the error of a file may quote a line with a secret
		return nil, fmt.Errorf("no S3 credentials can be read from %s", from)
	}
	if value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return nil, fmt.Errorf("no S3 credentials in %s; set them, or set --s3.credentials-file", from)
	}
	return secrets, nil
}
