package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// verify compares the files of a release with SHA256SUMS and with its provenance, and, where keyFile names a public key, both
// with their signatures. It returns the number of files that are listed. A file that is missing, changed or not listed is an error;
// the folder repodata, of a mirror, may be missing.
func verify(dir, keyFile string) (int, error) {
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return 0, fmt.Errorf("verify %s: %w", dir, err)
	}
	if keyFile != "" {
		if err := verifySignatures(dir, keyFile, sums); err != nil {
			return 0, fmt.Errorf("verify %s: %w", dir, err)
		}
	}
	listed, err := parseSums(string(sums))
	if err != nil {
		return 0, fmt.Errorf("verify %s: %w", dir, err)
	}
	var found []error
	for name, want := range listed {
		got, err := digest(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && got != want {
			err = fmt.Errorf("%s: its digest is %s, want %s of %s", name, got, want, sumsName)
		}
		found = append(found, err)
	}
	names, err := publishedFiles(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if listed[name] == "" && !slices.Contains([]string{sumsName, signatureName, bundleName, keylessName}, name) {
			found = append(found, fmt.Errorf("%s: not in %s", name, sumsName))
		}
	}
	if err := errors.Join(append(found, verifyRepodata(dir), verifyProvenance(dir, listed))...); err != nil {
		return 0, fmt.Errorf("verify %s: %w", dir, err)
	}
	return len(listed), nil
}

func parseSums(text string) (map[string]string, error) {
	listed := map[string]string{}
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(sum) != 2*sha256.Size || !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s: line %q: want a digest, two spaces and a file of this folder", sumsName, strings.TrimSpace(line))
		}
		listed[name] = sum
	}
	return listed, nil
}

// verifyProvenance compares the subjects of the statement with the list: the statement is of this release, and of all of it.
func verifyProvenance(dir string, listed map[string]string) error {
	name, data, err := readProvenance(dir)
	if err != nil {
		return err
	}
	var s statement
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if s.Type != statementType || s.PredicateType != provenanceType {
		return fmt.Errorf("%s: it is a %s of %s, want %s of %s", name, s.Type, s.PredicateType, statementType, provenanceType)
	}
	subjects := map[string]string{}
	for _, each := range s.Subject {
		subjects[each.Name] = each.Digest["sha256"]
	}
	for file, sum := range listed {
		if file != name && file != attestationName(name) && file != publicKeyName && subjects[file] != sum {
			return fmt.Errorf("%s: subject %s has digest %q, want %s of %s", name, file, subjects[file], sum, sumsName)
		}
	}
	return nil
}

// readProvenance returns the statement of a release, and its name.
func readProvenance(dir string) (name string, data []byte, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_provenance.json"))
	if err != nil || len(files) != 1 {
		return "", nil, errors.Join(err, fmt.Errorf("find *_provenance.json: want 1, found %d", len(files)))
	}
	data, err = os.ReadFile(files[0])
	return filepath.Base(files[0]), data, err
}

func attestationName(statement string) string {
	return strings.TrimSuffix(statement, ".json") + ".sigstore.json"
}

// verifySignatures checks all three: of the list, alone and in its bundle, and of the provenance in its envelope.
func verifySignatures(dir, keyFile string, sums []byte) error {
	key, err := readPublicKey(keyFile)
	if err != nil {
		return err
	}
	encoded, err := os.ReadFile(filepath.Join(dir, signatureName))
	if err != nil {
		return fmt.Errorf("the release is not signed: %w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(string(encoded))
	if err != nil {
		return fmt.Errorf("%s: %w", signatureName, err)
	}
	if !signed(key, sums, signature) {
		return fmt.Errorf("%s: not a signature of %s by %s", signatureName, sumsName, keyFile)
	}
	b, err := readBundle(filepath.Join(dir, bundleName))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(sums)
	m := b.MessageSignature
	if m == nil || !bytes.Equal(m.MessageDigest.Digest, sum[:]) || !signed(key, sums, m.Signature) {
		return fmt.Errorf("%s: not a signature of %s by %s", bundleName, sumsName, keyFile)
	}
	return verifyAttestation(dir, keyFile, key)
}

func verifyAttestation(dir, keyFile string, key *ecdsa.PublicKey) error {
	name, payload, err := readProvenance(dir)
	if err != nil {
		return err
	}
	file := attestationName(name)
	b, err := readBundle(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	e := b.DSSEEnvelope
	if e == nil || len(e.Signatures) != 1 || e.PayloadType != inTotoType || !bytes.Equal(e.Payload, payload) ||
		!signed(key, preAuthenticated(inTotoType, payload), e.Signatures[0].Sig) {
		return fmt.Errorf("%s: not a signature of %s by %s", file, name, keyFile)
	}
	return nil
}

func readBundle(file string) (bundle, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return bundle{}, err
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	if b.MediaType != bundleType {
		return b, fmt.Errorf("%s: media type %q, want %q", filepath.Base(file), b.MediaType, bundleType)
	}
	// What no signature covers, such as a space, has to be as it was written, too.
	if again, err := encodeJSON(b); err != nil || !bytes.Equal(again, data) {
		return b, fmt.Errorf("%s: not as `release build` wrote it", filepath.Base(file))
	}
	return b, nil
}

func signed(key *ecdsa.PublicKey, data, signature []byte) bool {
	sum := sha256.Sum256(data)
	return ecdsa.VerifyASN1(key, sum[:], signature)
}

func readPublicKey(file string) (*ecdsa.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("read public key: %s is not a public key in PEM", file)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read public key %s: %w", file, err)
	}
	public, is := key.(*ecdsa.PublicKey)
	if !is {
		return nil, fmt.Errorf("read public key: %s has a %T, want an ECDSA key", file, key)
	}
	return public, nil
}
