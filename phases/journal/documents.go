package journal

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

const (
	// packFrom is how many bytes of text a run has before it is packed: some five hundred machines. Below, kubectl shows
	// it, and a ccmadm that knows nothing of packing reads it.
	packFrom = 400_000
	// maxText is how many a packed run may have when it is read: of whoever writes into kube-system, too.
	maxText = 64_000_000
	ending  = ".gz" // of a packed run's key
	// elsewhere stands in the place of a packed run's text: to a ccmadm that does not unpack it is of a newer one.
	elsewhere = "apiVersion: ccmadm.dev/v1alpha2\nkind: " + RunKind + "\n"
)

// documents are the runs as the ConfigMap holds them, by their keys: those that are long are packed, since an object
// has room for a little more than a megabyte, which 700 machines would fill.
type documents struct {
	text   map[string]string
	packed map[string][]byte
}

func documentsOf(cm *corev1.ConfigMap) documents {
	return documents{text: cm.Data, packed: cm.BinaryData}
}

// document is a run as text or, where it is long, packed.
type document struct {
	text   string
	packed []byte
}

func (d document) size() int { return len(d.text) + len(d.packed) }

func pack(text []byte) (document, error) {
	if len(text) <= packFrom {
		return document{text: string(text)}, nil
	}
	if len(text) > maxText {
		return document{}, finding.Errorf("pack a run of the journal: it has %d bytes, and may have %d", len(text), maxText)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return document{}, fmt.Errorf("pack a run of the journal: %w", err)
	}
	return document{packed: b.Bytes()}, nil
}

func (l documents) add(key string, d document) {
	if d.packed != nil {
		l.packed[key+ending], l.text[key] = d.packed, elsewhere
		return
	}
	l.text[key] = d.text
}

// unpacked returns the texts of all runs.
func (l documents) unpacked() (map[string]string, error) {
	texts := map[string]string{}
	maps.Copy(texts, l.text)
	for key, stored := range l.packed {
		text, err := unpack(stored)
		if err != nil {
			return nil, fmt.Errorf("read %s, %s: %w", object, key, err)
		}
		texts[strings.TrimSuffix(key, ending)] = text
	}
	return texts, nil
}

func unpack(stored []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxText {
		return "", finding.Errorf("it has more than %d bytes", maxText)
	}
	return string(text), nil
}

// digest tells a journal that was edited by hand.
func (l documents) digest() string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(l.text)) {
		fmt.Fprintf(sum, "%s %d\n%s", key, len(l.text[key]), l.text[key])
	}
	for _, key := range slices.Sorted(maps.Keys(l.packed)) {
		fmt.Fprintf(sum, "%s %d\n%s", key, len(l.packed[key]), l.packed[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
