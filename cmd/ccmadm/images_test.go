package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/images"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// mirror is a registry with some of the images of provider onprem, for amd64.
func mirror(t *testing.T, names ...string) string {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, each := range names {
		img, err := random.Image(1024, 1)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", "amd64"
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(host + "/" + each + ":dev")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, img); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

// runImages runs a command below images, and returns its standard output and exit status.
func runImages(t *testing.T, in string, args ...string) (string, finding.ExitCode, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newImages(workflow.Streams{In: strings.NewReader(in), Out: &out, Err: &out, Getenv: os.Getenv})
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	var known *finding.Error
	switch {
	case err == nil:
		return out.String(), finding.ExitDone, nil
	case errors.As(err, &known):
		return out.String(), known.Code, err
	}
	t.Fatal(err)
	return "", 0, err
}

func TestImagesVerify(t *testing.T) {
	all := []string{"cloud-controller-manager", "node-agent", "ccmadm"}
	for _, tt := range []struct {
		name  string
		has   []string
		arch  string
		code  finding.ExitCode
		state images.State
	}{
		{name: "all are there", has: all, arch: "amd64", state: images.StateThere},
		{name: "one is missing", has: all[:2], arch: "amd64", code: finding.ExitFound, state: images.StateMissing},
		{name: "none is for the architecture", has: all, arch: "arm64", code: finding.ExitFound, state: images.StateArchitecture},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code, err := runImages(t, "", "verify", "--provider=onprem", "--image-repository="+mirror(t, tt.has...), "--arch="+tt.arch, "-o=json")
			if code != tt.code {
				t.Errorf("exit status %d, want %d: %v", code, tt.code, err)
			}
			var found []images.Status
			if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != len(all) {
				t.Fatalf("%v in %s", err, out)
			}
			if last := found[len(found)-1]; last.State != tt.state {
				t.Errorf("got %+v, want %q", last, tt.state)
			}
		})
	}
	_, code, err := runImages(t, "", "verify", "--provider=onprem", "--image-repository=registry.invalid/k8s", "--arch=amd64")
	if code != finding.ExitError || !strings.Contains(err.Error(), "3 of 3 images cannot be asked for") {
		t.Errorf("exit status %d, %v", code, err)
	}
}

// TestImages_Arch: a list that names no architecture is refused before anything is asked for; spaces around the names do no harm.
func TestImages_Arch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "images.tar")
	for _, archs := range []string{"", " ", "amd64,", "linux/amd64", "amd64 arm64"} {
		for _, args := range [][]string{{"verify"}, {"save", "-o", file}} {
			args = append(args, "--provider=onprem", "--image-repository=registry.invalid/k8s", "--arch="+archs)
			_, code, err := runImages(t, "", args...)
			if code != finding.ExitUsage || !strings.Contains(err.Error(), "want --arch amd64,arm64") {
				t.Errorf("%q: exit status %d, %v", args, code, err)
			}
		}
	}
	host := mirror(t, "cloud-controller-manager", "node-agent", "ccmadm")
	out, code, err := runImages(t, "", "verify", "--provider=onprem", "--image-repository="+host, "--arch= amd64, arm64", "-o=json")
	if code != finding.ExitFound || !strings.Contains(out, `"architecture": "amd64"`) || !strings.Contains(out, `"architecture": "arm64"`) {
		t.Errorf("exit status %d, %v in %s", code, err, out)
	}
}

func TestImagesSave(t *testing.T) {
	host := mirror(t, "cloud-controller-manager", "node-agent", "ccmadm")
	dir := t.TempDir()
	file := filepath.Join(dir, "images.tar")
	args := []string{"save", "--provider=onprem", "--image-repository=" + host, "--arch=amd64", "-o", file}
	if out, _, err := runImages(t, "", args...); err != nil || out != file+": 3 images for amd64\n" {
		t.Fatalf("%v in %q", err, out)
	}
	// The folder that has it is a source, too, and the registry is no longer needed.
	again := filepath.Join(t.TempDir(), "again.tar")
	if _, _, err := runImages(t, "", append(args[:len(args)-1], again, "--from="+dir)...); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(again)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("%v: the two archives differ", err)
	}

	missing := filepath.Join(dir, "missing.tar")
	_, code, err := runImages(t, "", "save", "--provider=onprem", "--image-repository="+host, "--arch=amd64,arm64", "-o", missing)
	if code != finding.ExitError || !strings.Contains(err.Error(), "/ccmadm:dev: it has no image for arm64") {
		t.Errorf("exit status %d, %v", code, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("%v: left are %q", err, left)
	}
}

func TestImagesLoad_BadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "images.tar")
	if err := os.WriteFile(file, []byte("no tar"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("no tar"))
	sum := hex.EncodeToString(digest[:])
	for _, tt := range []struct {
		args    []string
		wantErr string
		code    finding.ExitCode
	}{
		{args: []string{}, wantErr: "want one archive, got 0 arguments"},
		{args: []string{file}, wantErr: "read archive " + file},
		{args: []string{"-"}, wantErr: "read archive"},
		{args: []string{filepath.Join(dir, "none.tar")}, wantErr: "no such file"},
		{args: []string{"-", "--sha256=00"}, wantErr: "its SHA-256 is"},
		{args: []string{"http://127.0.0.1:1/x"}, wantErr: "--sha256 is missing"},
		{args: []string{file, "--sha256=" + strings.ToUpper(sum)}, wantErr: "read archive " + file},
		{args: []string{file, "--node-image=x"}, wantErr: "read --node-image: it is for --via"},
		{args: []string{file, "--ssh-user=root"}, wantErr: "read --ssh-user: it is for --via"},
		{args: []string{file, "--parallel=4"}, wantErr: "read --parallel: it is for --via"},
		{args: []string{file, "--skip=w1"}, wantErr: "read --skip: it is for --via"},
		{args: []string{file, "--address=192.0.2.1"}, wantErr: "read --address: it is for --via"},
		{args: []string{file, "--kubeconfig=x"}, wantErr: "read --kubeconfig: it is for --via"},
	} {
		_, code, err := runImages(t, "no tar", append([]string{"load"}, tt.args...)...)
		if err == nil || !strings.Contains(err.Error(), tt.wantErr) || code != finding.ExitUsage {
			t.Errorf("%q: exit status %d, %v, want %q", tt.args, code, err, tt.wantErr)
		}
	}
}

// An archive that comes from elsewhere is not put into memory, where a machine has /tmp there, and is not left behind.
func TestImagesLoad_Spool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if _, code, err := runImages(t, "no tar", "load", "-"); code != finding.ExitUsage || !strings.Contains(err.Error(), "read archive "+dir) {
		t.Errorf("exit status %d, %v", code, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if info, err := os.Stat("/var/tmp"); err == nil && info.IsDir() {
		if got := spoolDir(""); got != "/var/tmp" {
			t.Errorf("without TMPDIR it is %q", got)
		}
	}
}
