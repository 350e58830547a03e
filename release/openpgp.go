package main

import (
	"bytes"
	"crypto"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// openPGP signs the metadata of repositories, as apt and dnf want it, and packages of rpm.
type openPGP struct {
	entity *openpgp.Entity
	config *packet.Config
}

// readOpenPGP reads an armored private key without a passphrase. Without a file there is none. Signatures are of date, or of
// the key's own time where the key is younger: a signature before its key is refused.
func readOpenPGP(file string, date time.Time) (*openPGP, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read GPG_PRIVATE_KEY_FILE: %w", err)
	}
	defer func() { _ = f.Close() }()
	keys, err := openpgp.ReadArmoredKeyRing(f)
	if err != nil {
		return nil, fmt.Errorf("read GPG_PRIVATE_KEY_FILE: %s: %w", file, err)
	}
	if len(keys) != 1 || keys[0].PrivateKey == nil || keys[0].PrivateKey.Encrypted {
		return nil, fmt.Errorf("read GPG_PRIVATE_KEY_FILE: %s: want one private key without a passphrase", file)
	}
	if keys[0].PrimaryKey.CreationTime.After(date) {
		date = keys[0].PrimaryKey.CreationTime
	}
	reproducible := false
	return &openPGP{entity: keys[0], config: &packet.Config{
		DefaultHash: crypto.SHA256, Time: func() time.Time { return date }, NonDeterministicSignaturesViaNotation: &reproducible,
	}}, nil
}

func (o *openPGP) clearSign(from, to string) error {
	key, is := o.entity.SigningKey(o.config.Now())
	if !is {
		return fmt.Errorf("sign %s: the key is not one that signs", from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return create(to, func(w io.Writer) error {
		signed, err := clearsign.Encode(w, key.PrivateKey, o.config)
		if err != nil {
			return err
		}
		if _, err := signed.Write(text); err != nil {
			return err
		}
		return signed.Close()
	})
}

func (o *openPGP) detachSign(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return create(to, func(w io.Writer) error { return openpgp.ArmoredDetachSign(w, o.entity, f, o.config) })
}

// sign returns a detached signature, not armored, as packages of rpm have it.
func (o *openPGP) sign(data io.Reader) ([]byte, error) {
	var signature bytes.Buffer
	err := openpgp.DetachSign(&signature, o.entity, data, o.config)
	return signature.Bytes(), err
}

func (o *openPGP) writePublicKey(file string) error {
	return create(file, func(w io.Writer) error {
		armored, err := armor.Encode(w, openpgp.PublicKeyType, nil)
		if err != nil {
			return err
		}
		if err := o.entity.Serialize(armored); err != nil {
			return err
		}
		return armored.Close()
	})
}
