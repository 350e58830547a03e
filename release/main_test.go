package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// fixture is one signed release of a small program, made once for all tests, which only read it. Its folder is copied by those
// that change files.
type fixture struct {
	dir, signerKey, gpgKey string
	compile                func(context.Context, string, platform, string) error
}

var made fixture

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "ccmadm-release-test-*")
	if err == nil {
		made, err = makeFixture(context.Background(), dir)
	}
	status := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "make a release to look at: %v\n", err)
	} else {
		status = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

func makeFixture(ctx context.Context, dir string) (fixture, error) {
	f := fixture{dir: filepath.Join(dir, "dist"), signerKey: filepath.Join(dir, "cosign.key"), gpgKey: filepath.Join(dir, "gpg.asc")}
	if err := writeSignerKey(f.signerKey); err != nil {
		return f, err
	}
	if err := writeGPGKey(f.gpgKey); err != nil {
		return f, err
	}
	source := filepath.Join(dir, "program", "main.go")
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		return f, err
	}
	if err := os.WriteFile(source, []byte(smallProgram), 0o644); err != nil {
		return f, err
	}
	f.compile = compileSmall(dir, source)
	r, err := f.release("v0.1.0")
	if err != nil {
		return f, err
	}
	return f, r.write(ctx, f.dir)
}

// smallProgram answers what the release asks of ccmadm.
const smallProgram = `package main

import "os"

func main() {
	if len(os.Args) > 2 && os.Args[1] == "completion" {
		os.Stdout.WriteString("# completions of ccmadm for " + os.Args[2] + "\n")
		return
	}
	if len(os.Args) > 5 && os.Args[1] == "render" && os.Args[4] == "--output-dir" {
		dir := os.Args[5]
		if os.MkdirAll(dir+"/templates", 0o755) != nil || os.WriteFile(dir+"/Chart.yaml", []byte("name: ccmadm\nversion: 0.1.0\n"), 0o644) != nil ||
			os.WriteFile(dir+"/templates/aws.yaml", []byte("{}\n"), 0o644) != nil {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "env" {
		for _, variable := range os.Environ() {
			os.Stdout.WriteString(variable + "\n")
		}
		return
	}
	os.Stdout.WriteString("ccmadm of a test\n")
}
`

// compileSmall compiles the program once for each platform, and copies it from then on.
func compileSmall(dir, source string) func(context.Context, string, platform, string) error {
	return func(ctx context.Context, _ string, on platform, file string) error {
		compiled := filepath.Join(dir, on.String())
		data, err := os.ReadFile(compiled)
		if err != nil {
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", compiled, source)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+on.os, "GOARCH="+on.arch)
			if out, err := cmd.CombinedOutput(); err != nil {
				return &exec.Error{Name: "go build: " + string(bytes.TrimSpace(out)), Err: err}
			}
			if data, err = os.ReadFile(compiled); err != nil {
				return err
			}
		}
		return os.WriteFile(file, data, 0o755)
	}
}

// release is one of a commit that only the tests know, signed with the keys of the fixture.
func (f fixture) release(version string) (*release, error) {
	r := &release{
		version: version, commit: "0123456789abcdef0123456789abcdef01234567", date: time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC),
		source: "..", compile: f.compile, goVersion: "go1.26.8", progress: io.Discard,
	}
	var err error
	if r.signer, err = readSigner(f.signerKey); err != nil {
		return nil, err
	}
	r.openPGP, err = readOpenPGP(f.gpgKey, r.date)
	return r, err
}

func (f fixture) publicKey() string { return filepath.Join(f.dir, publicKeyName) }

func writeSignerKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func writeGPGKey(file string) error {
	entity, err := openpgp.NewEntity("ccmadm test", "", "test@example.com", &packet.Config{
		Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048,
		Time: func() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		return err
	}
	return create(file, func(w io.Writer) error {
		armored, err := armor.Encode(w, openpgp.PrivateKeyType, nil)
		if err != nil {
			return err
		}
		if err := entity.SerializePrivateWithoutSigning(armored, nil); err != nil {
			return err
		}
		return armored.Close()
	})
}

// copied is the folder of the fixture, for a test that changes it.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	if err := os.CopyFS(dir, os.DirFS(made.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// flip changes one byte in the middle of a file.
func flip(t *testing.T, file string) {
	t.Helper()
	data := read(t, file)
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// strangersKeys are the keys of another signer than the release's, in files.
func strangersKeys(t *testing.T) (private, public string) {
	t.Helper()
	private = filepath.Join(t.TempDir(), "other.key")
	if err := writeSignerKey(private); err != nil {
		t.Fatal(err)
	}
	stranger, err := readSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	public = filepath.Join(t.TempDir(), "other.pub")
	if err := stranger.writePublicKey(public); err != nil {
		t.Fatal(err)
	}
	return private, public
}
