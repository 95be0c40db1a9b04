// Package packaging tests the files that .ci/release and users put together. It has no code of its own.
package packaging

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests: each Kubernetes manifest is of a known kind, and has only fields of that kind.
func TestManifests(t *testing.T) {
	kinds := map[string]func() any{
		"v1/ConfigMap": func() any { return new(corev1.ConfigMap) }, "v1/Service": func() any { return new(corev1.Service) },
		"apps/v1/StatefulSet":           func() any { return new(appsv1.StatefulSet) },
		"policy/v1/PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
	}
	paths, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set *appsv1.StatefulSet
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var kind struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			object := kinds[kind.APIVersion+"/"+kind.Kind]
			if object == nil {
				t.Fatalf("%s: unknown kind %s/%s", path, kind.APIVersion, kind.Kind)
			}
			o := object()
			if err := yaml.UnmarshalStrict(document, o); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if s, ok := o.(*appsv1.StatefulSet); ok {
				set = s
			}
			found++
		}
	}
	if found != 4 || set == nil {
		t.Fatalf("%d objects, or no StatefulSet", found)
	}
	pod := set.Spec.Template
	if pod.Labels["app.kubernetes.io/name"] != set.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Error("the selector does not match the pod")
	}
	volumes := map[string]bool{set.Spec.VolumeClaimTemplates[0].Name: true}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %s", m.Name)
		}
	}
	requireFlags(t, pod.Spec.Containers[0].Args)
}

// TestCompose: the compose file names a Dockerfile that exists, flags that exist, and has a health check.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Name     string `json:"name"`
		Services map[string]struct {
			Build       struct{ Context, Dockerfile string } `json:"build"`
			Image       string                               `json:"image"`
			Command     []string                             `json:"command"`
			Ports       []string                             `json:"ports"`
			Volumes     []string                             `json:"volumes"`
			Restart     string                               `json:"restart"`
			Grace       string                               `json:"stop_grace_period"`
			ReadOnly    bool                                 `json:"read_only"`
			CapDrop     []string                             `json:"cap_drop"`
			SecurityOpt []string                             `json:"security_opt"`
			Ulimits     map[string]int                       `json:"ulimits"`
			Health      struct {
				Test        []string `json:"test"`
				Interval    string   `json:"interval"`
				Timeout     string   `json:"timeout"`
				Retries     int      `json:"retries"`
				StartPeriod string   `json:"start_period"`
			} `json:"healthcheck"`
		} `json:"services"`
		Volumes map[string]any `json:"volumes"`
	}
	if err := yaml.UnmarshalStrict(text, &compose); err != nil {
		t.Fatal(err)
	}
	s := compose.Services["halite"]
	if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	if got := strings.Join(s.Health.Test, " "); got != "CMD /halite check healthy" {
		t.Errorf("health check %q", got)
	}
	requireFlags(t, s.Command)
}

// TestDockerfile: each line has a known instruction, and the image has a user and a health check.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`^(FROM|WORKDIR|COPY|RUN|ARG|USER|VOLUME|EXPOSE|HEALTHCHECK|ENTRYPOINT|CMD) \S`)
	seen := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		parts := known.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("unknown instruction: %s", line)
		}
		seen[parts[1]] = line
	}
	if seen["USER"] != "USER 65532:65532" || !strings.Contains(seen["HEALTHCHECK"], `["/halite", "check", "healthy"]`) ||
		seen["FROM"] != "FROM scratch" {
		t.Errorf("%q", seen)
	}
}

// requireFlags demands that the flags of a command line are flags of the server.
func requireFlags(t *testing.T, command []string) {
	t.Helper()
	flags, err := os.ReadFile("../docs/reference/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range command {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if strings.HasPrefix(word, "--") && !regexp.MustCompile("`--(\\[no-\\])?"+regexp.QuoteMeta(name)+"`").Match(flags) {
			t.Errorf("no flag --%s", name)
		}
	}
}

// TestImage unpacks the image of HALITE_IMAGE, which .ci/release builds, and runs its entry point and its health check.
func TestImage(t *testing.T) {
	path := os.Getenv("HALITE_IMAGE")
	if path == "" {
		t.Skip("HALITE_IMAGE names no image; .ci/release builds one")
	}
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user %q", config.Config.User)
	}
	root := t.TempDir()
	unpack(t, image, root)
	addr := freeAddress(t)
	inRoot := func(words []string) []string {
		out := make([]string, len(words))
		for i, w := range words {
			w = strings.Replace(w, "=/data", "="+filepath.Join(root, "data"), 1)
			out[i] = strings.Replace(w, "=:9480", "="+addr, 1)
		}
		out[0] = filepath.Join(root, out[0])
		return out
	}
	entry := inRoot(append(append([]string{}, config.Config.Entrypoint...), config.Config.Cmd...))
	server := exec.Command(entry[0], entry[1:]...)
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	}()
	health := append(inRoot(config.Config.Healthcheck.Test[1:]), "--url", "http://"+addr)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if response, err := http.Get("http://" + addr + "/-/ready"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("not ready within a minute")
		}
	}
	if out, err := exec.Command(health[0], health[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func unpack(t *testing.T, image v1.Image, root string) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 && h.Uid != 65532 {
			t.Errorf("%s belongs to %d", h.Name, h.Uid)
		}
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var file *os.File
			if file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, h.FileInfo().Mode()); err == nil {
				_, err = io.Copy(file, r)
				err = errors.Join(err, file.Close())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
