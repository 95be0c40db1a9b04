// Command image builds the image of Halite as an archive that docker load and skopeo read, without a Docker daemon.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// userID is the user of the process. No user of the host has it.
const userID = 65532

type options struct{ binary, certificates, version, arch, out string }

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the program")
	flag.StringVar(&o.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "root certificates")
	flag.StringVar(&o.version, "version", "", "version, the tag of the image")
	flag.StringVar(&o.arch, "arch", "amd64", "GOARCH of the program")
	flag.StringVar(&o.out, "out", "", "archive to write")
	flag.Parse()
	if err := build(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func build(o options) error {
	tag, err := name.NewTag("halite:" + o.version)
	if err != nil {
		return fmt.Errorf("-version: %w", err)
	}
	content, err := files(o)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", o.arch
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", userID, userID), Entrypoint: []string{"/halite"},
		Cmd:          []string{"serve", "--storage.path=/data", "--web.listen-address=:9480"},
		ExposedPorts: map[string]struct{}{"9480/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "Halite", "org.opencontainers.image.version": o.version,
			"org.opencontainers.image.licenses": "Apache-2.0"},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/halite", "check", "healthy"}, Interval: 15 * time.Second, Timeout: 6 * time.Second,
			StartPeriod: 5 * time.Minute, Retries: 3,
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(o.out, tag, image)
}

// files returns the only layer: the program, root certificates, and empty directories for data and temporary files. Equal
// content gives equal bytes.
func files(o options) ([]byte, error) {
	binary, err := os.ReadFile(o.binary)
	if err != nil {
		return nil, fmt.Errorf("-binary: %w", err)
	}
	certificates, err := os.ReadFile(o.certificates)
	if err != nil {
		return nil, fmt.Errorf("-certificates: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(name string, kind byte, mode int64, owner int, content []byte) {
		header := &tar.Header{Typeflag: kind, Name: name, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(content)),
			ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err == nil {
			err = w.WriteHeader(header)
		}
		if err == nil {
			_, err = w.Write(content)
		}
	}
	add("data/", tar.TypeDir, 0o700, userID, nil)
	add("etc/ssl/certs/", tar.TypeDir, 0o755, 0, nil)
	add("etc/ssl/certs/ca-certificates.crt", tar.TypeReg, 0o644, 0, certificates)
	add("halite", tar.TypeReg, 0o755, 0, binary)
	add("tmp/", tar.TypeDir, 0o700, userID, nil)
	return layer.Bytes(), errors.Join(err, w.Close())
}
