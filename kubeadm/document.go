package kubeadm

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// document is one document of a kubeadm configuration.
type document struct {
	edit.Document
	apiVersion string
	kind       string
}

func (d *document) isKubeadm() bool { return strings.HasPrefix(d.apiVersion, kubeadmGroup+"/") }

// text is the scalar at a path; empty: there is none.
func (d *document) text(path ...string) string {
	n := d.Root
	for _, key := range path {
		n = edit.Lookup(n, key)
	}
	return edit.Scalar(n)
}

// parse builds the tree from the text and checks what must hold for every document.
func (d *document) parse() error {
	lines := strings.Split(d.Text, "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "%") }); i >= 0 {
		return fmt.Errorf("%s:%d: kubeadm does not read YAML directives: remove the line", d.File, d.Line+i)
	}
	if err := d.Parse(); err != nil || d.Root == nil {
		return err
	}
	if d.Root.Kind != yaml.MappingNode {
		return d.Errorf(d.Root, "want a mapping with apiVersion and kind")
	}
	d.apiVersion, d.kind = edit.Scalar(edit.Lookup(d.Root, "apiVersion")), edit.Scalar(edit.Lookup(d.Root, "kind"))
	group, version, ok := strings.Cut(d.apiVersion, "/")
	if !ok || group == "" || version == "" || d.kind == "" {
		return d.Errorf(d.Root, "kubeadm wants apiVersion (as group/version) and kind in each document")
	}
	ours := d.kind == clusterConfigKind || d.kind == RoleInit.kind() || d.kind == RoleJoin.kind()
	if !d.isKubeadm() && !ours {
		return nil
	}
	return d.checkKubeadm(version) // kubeadm goes by the kind alone
}

// checkKubeadm refuses versions that no supported kubeadm reads, and what makes an edit ambiguous.
func (d *document) checkKubeadm(version string) error {
	at := edit.Lookup(d.Root, "apiVersion")
	switch {
	case d.apiVersion == v1beta3, d.apiVersion == v1beta4, d.apiVersion == kubeadmV1:
	case strings.HasPrefix(version, "v1alpha"), version == "v1beta1", version == "v1beta2":
		return d.Errorf(at, "%s is older than what kubeadm reads now: run `kubeadm config migrate --old-config OLD --new-config NEW` with the kubeadm that the file was written for", d.apiVersion)
	default:
		return d.Errorf(at, "%s is not known: want %s or %s", d.apiVersion, v1beta3, v1beta4)
	}
	_, err := d.Value() // finds duplicate keys and aliases that contain themselves
	return err
}

// prepend puts comments before the document.
func (d *document) prepend(comments string) error {
	if comments != "" && !strings.HasSuffix(comments, "\n") {
		comments += d.Newline()
	}
	d.Text = comments + d.Text
	d.Line -= strings.Count(comments, "\n")
	return d.parse()
}

// separatorComment returns the comment of a "--- # comment" line as a line of its own.
func separatorComment(separator string) string {
	return strings.TrimLeft(strings.TrimPrefix(separator, edit.Separator), " \t\r\n")
}
