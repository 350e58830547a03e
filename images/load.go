package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// Archive is what [Save] wrote. [Open] has compared all of it with its digests.
type Archive struct {
	file   *os.File
	images []archived
}

// archived is an image in an archive.
type archived struct {
	name, digest string
	archs        []string
}

// errShort is an image under a short reference, as an older [Save] wrote the one that was typed.
var errShort = errors.New("want the complete reference")

// Open reads an archive to its end, and compares every file that its images need with its digest and its size. The file has to stay
// open: what is imported is the very file that was compared, whatever has its name by then.
func Open(ctx context.Context, file *os.File) (*Archive, error) {
	a, err := open(ctx, file)
	if err != nil {
		hint := "`ccmadm images save` writes such archives"
		if errors.Is(err, errShort) || errors.Is(err, errDigest) {
			hint = "an older ccmadm wrote it: run `ccmadm images save` of this one again"
		}
		return nil, finding.Usagef("read archive %s: %w", file.Name(), err).WithHint("%s; nothing was imported", hint)
	}
	return a, nil
}

func open(ctx context.Context, file *os.File) (*Archive, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	l, err := pack(file)
	if err != nil {
		return nil, err
	}
	list, err := entries(l)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("there is no image in it")
	}
	a := &Archive{file: file}
	source := &Folder{path: file.Name(), images: map[string]found{}}
	c := &checker{from: source, complete: map[v1.Hash]bool{}}
	for _, d := range list {
		name := d.Annotations[nameAnnotation]
		if name == "" || finding.Clean(name) != name || strings.ContainsAny(name, " ,\t") {
			return nil, fmt.Errorf("image %s: its annotation %s has no reference: %q", d.Digest, nameAnnotation, finding.Clean(name))
		}
		complete, err := machine.CompleteReference(name)
		if err == nil && complete != name { // the kubelet would not find it
			err = fmt.Errorf("%w %s", errShort, complete)
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		source.images[name] = found{in: l, root: d}
		one, err := c.check(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		one.digest = d.Digest.String()
		a.images = append(a.images, one)
	}
	if err := c.damaged(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// checker compares the images of an archive with their digests.
type checker struct {
	from     *Folder
	complete map[v1.Hash]bool // blobs of complete images
	lacking  []lacking
}

// lacking is an image of which the archive has not all blobs.
type lacking struct {
	ref   string
	image image
	err   error
}

// check compares all blobs of an image. Under a digest, its index lists architectures that the archive has not.
func (c *checker) check(ctx context.Context, name string) (archived, error) {
	r, err := resolve(ctx, c.from, name, nil)
	if err != nil {
		return archived{}, err
	}
	_, byDigest := digestOf(name)
	one := archived{name: name}
	var lacks error
	for _, i := range r.images {
		switch err := compare(ctx, c.from, name, i); {
		case byDigest && errors.Is(err, fs.ErrNotExist):
			lacks = err
			c.lacking = append(c.lacking, lacking{name, i, err})
		case err != nil:
			return one, err
		default:
			one.archs = append(one.archs, i.arch)
			for _, p := range i.parts {
				c.complete[p.Digest] = true
			}
		}
	}
	if len(one.archs) == 0 {
		return one, lacks
	}
	return one, nil
}

// damaged finds an image that has lost some of its layers. One for an architecture that was not saved has none, but those that it shares
// with complete images.
func (c *checker) damaged(ctx context.Context) error {
	for _, l := range c.lacking {
		for _, layer := range l.image.parts[1:] {
			if c.complete[layer.Digest] {
				continue
			}
			there, err := c.from.has(ctx, l.ref, []v1.Descriptor{layer})
			if err == nil && there {
				err = l.err
			}
			if err != nil {
				return fmt.Errorf("image %s for linux/%s is incomplete: %w", l.ref, l.image.arch, err)
			}
		}
	}
	return nil
}

func compare(ctx context.Context, from Source, name string, i image) error {
	for _, p := range i.parts {
		if err := copyBlob(ctx, io.Discard, from, part{size: p.Size, ref: name}, p.Digest); err != nil {
			return fmt.Errorf("read %s: %w", p.Digest, err)
		}
	}
	return nil
}

// Names lists the images, in the order of the archive.
func (a *Archive) Names() []string {
	var names []string
	for _, i := range a.images {
		names = append(names, i.name)
	}
	return names
}

// Lacks lists the images that the archive has not for an architecture, as amd64.
func (a *Archive) Lacks(arch string) []string {
	var names []string
	for _, i := range a.images {
		if !slices.Contains(i.archs, arch) {
			names = append(names, i.name)
		}
	}
	return names
}

// Load imports the archive into containerd's namespace k8s.io of a machine of this architecture, as amd64, and returns the
// names of the images that containerd lacked or had with other content. None: nothing was imported. An image that the archive
// has not for this architecture is refused before anything is imported.
func (a *Archive) Load(ctx context.Context, m *machine.Machine, arch string) ([]string, error) {
	for _, i := range a.images {
		if !slices.Contains(i.archs, arch) {
			return nil, finding.Refusedf("import %s: the archive has it for linux/%s, and this machine is linux/%s",
				i.name, strings.Join(i.archs, ", linux/"), arch).
				WithHint("`ccmadm images save --arch %s` adds it; nothing was imported", arch)
		}
	}
	absent, err := a.absent(ctx, m)
	if err != nil || len(absent) == 0 {
		return nil, err
	}
	var said strings.Builder
	err = m.Runner.Run(ctx, machine.Command{
		Name: "ctr", Args: []string{"--namespace", machine.KubernetesNamespace, "images", "import", "-"},
		In: whole(a.file), Out: io.Discard, Err: &said, Changes: true,
	})
	if err != nil {
		return nil, fmt.Errorf("run ctr images import: %w: %s", err, finding.Clean(said.String()))
	}
	left, err := a.absent(ctx, m)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("import %s: containerd has other content still", strings.Join(left, ", "))
	}
	return absent, err
}

// absent are the images that containerd lacks or has with another digest.
func (a *Archive) absent(ctx context.Context, m *machine.Machine) ([]string, error) {
	var names []string
	for _, i := range a.images {
		digest, err := m.ImageDigest(ctx, i.name)
		if errors.Is(err, machine.ErrNotFound) {
			return nil, finding.Errorf("import images: containerd's program ctr is not installed: %w", err).
				WithHint("another container runtime needs its own way to import images; nothing was imported")
		}
		if err != nil {
			return nil, err
		}
		if digest != i.digest {
			names = append(names, i.name)
		}
	}
	return names, nil
}

// whole reads an open file from its beginning, whoever else reads it.
func whole(file io.ReaderAt) io.Reader { return io.NewSectionReader(file, 0, math.MaxInt64) }

// FileDigest is the SHA-256 digest of an open file in hexadecimal digits.
func FileDigest(file io.ReaderAt) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, whole(file)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
