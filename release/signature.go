package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

const (
	sumsName      = "SHA256SUMS"
	signatureName = sumsName + ".sig"
	bundleName    = sumsName + ".sigstore.json"
	keylessName   = sumsName + ".keyless.sigstore.json" // by cosign, in the workflow
	publicKeyName = "cosign.pub"
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	inTotoType    = "application/vnd.in-toto+json"
)

// signer signs as `cosign sign-blob --key` does: ECDSA with P-256 over SHA-256.
type signer struct{ key *ecdsa.PrivateKey }

// bundle is what newer versions of cosign read with --bundle. One of the last two is there.
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	MessageSignature *messageSignature `json:"messageSignature,omitempty"`
	DSSEEnvelope     *envelope         `json:"dsseEnvelope,omitempty"`
}

type messageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// envelope is https://github.com/secure-systems-lab/dsse, version 1.
type envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig []byte `json:"sig"`
}

// readSigner reads an unencrypted private key in PEM, PKCS #8. Without a file there is no signer.
func readSigner(file string) (*signer, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read COSIGN_PRIVATE_KEY_FILE: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("read COSIGN_PRIVATE_KEY_FILE: %s is not PEM", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read COSIGN_PRIVATE_KEY_FILE: %s has a %s, want an unencrypted PKCS #8 key: %w", file, block.Type, err)
	}
	private, is := key.(*ecdsa.PrivateKey)
	if !is || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("read COSIGN_PRIVATE_KEY_FILE: %s has a %T, want an ECDSA key of P-256", file, key)
	}
	return &signer{key: private}, nil
}

// sign gives the same signature for the same data: without a source of random numbers, Go derives the nonce from key and
// digest (RFC 6979).
func (s *signer) sign(data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return s.key.Sign(nil, sum[:], crypto.SHA256)
}

func (s *signer) writePublicKey(file string) error {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

// newBundle has the hint by which cosign and its log tell keys apart: the digest of the public key.
func (s *signer) newBundle() (bundle, error) {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		return bundle{}, err
	}
	sum := sha256.Sum256(der)
	b := bundle{MediaType: bundleType}
	b.VerificationMaterial.PublicKey.Hint = base64.StdEncoding.EncodeToString(sum[:])
	return b, nil
}

// writeAttestation wraps a statement into a signed envelope, for `cosign verify-blob-attestation --bundle`.
func (s *signer) writeAttestation(statement, file string) error {
	payload, err := os.ReadFile(statement)
	if err != nil {
		return err
	}
	sig, err := s.sign(preAuthenticated(inTotoType, payload))
	if err != nil {
		return err
	}
	b, err := s.newBundle()
	if err != nil {
		return err
	}
	b.DSSEEnvelope = &envelope{Payload: payload, PayloadType: inTotoType, Signatures: []envelopeSignature{{Sig: sig}}}
	return writeJSON(file, b)
}

// preAuthenticated is what DSSE signs of a payload.
func preAuthenticated(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

// writeSums lists every file that is published with its digest, and signs the list.
func (r *release) writeSums() error {
	names, err := publishedFiles(r.dir)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, name := range names {
		sum, err := digest(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, name)
	}
	if err := os.WriteFile(filepath.Join(r.dir, sumsName), list.Bytes(), 0o644); err != nil {
		return err
	}
	if r.signer == nil {
		_, err := fmt.Fprintln(r.progress, "[release] unsigned: COSIGN_PRIVATE_KEY_FILE is not set")
		return err
	}
	sig, err := r.signer.sign(list.Bytes())
	if err != nil {
		return fmt.Errorf("sign %s: %w", sumsName, err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, signatureName), []byte(base64.StdEncoding.EncodeToString(sig)), 0o644); err != nil {
		return err
	}
	b, err := r.signer.newBundle()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(list.Bytes())
	b.MessageSignature = &messageSignature{Signature: sig}
	b.MessageSignature.MessageDigest.Algorithm, b.MessageSignature.MessageDigest.Digest = "SHA2_256", sum[:]
	return writeJSON(filepath.Join(r.dir, bundleName), b)
}

func writeJSON(file string, value any) error {
	data, err := encodeJSON(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

func encodeJSON(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", " ")
	return append(data, '\n'), err
}
