package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// KubernetesNamespace is where containerd keeps what the kubelet runs.
const KubernetesNamespace = "k8s.io"

// CompleteReference returns the reference by which the kubelet and container runtimes know an image, where a shorter one is given: x is
// docker.io/library/x:latest, and a tag beside a digest is left out. An error says that it is no reference.
func CompleteReference(ref string) (string, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	rest, is := strings.CutPrefix(parsed.Name(), name.DefaultRegistry+"/")
	if !is || strings.HasPrefix(ref, "localhost/") { // which the library takes for a user of Docker Hub
		return rest, nil
	}
	return "docker.io/" + rest, nil
}

// HasImage asks the machine's container runtime whether it has an image. It asks by crictl, which knows every runtime, else by
// containerd's ctr. An error says that it cannot be asked, which is not a no.
func (m *Machine) HasImage(ctx context.Context, ref string) (bool, error) {
	ref, err := CompleteReference(ref)
	if err != nil {
		return false, err
	}
	list, err := m.images(ctx)
	if err == nil {
		return slices.Contains(list, ref), nil
	}
	digest, last := m.ImageDigest(ctx, ref)
	if last != nil {
		return false, errors.Join(err, last)
	}
	return digest != "", nil
}

// images are the references of all images that the container runtime has. A filter is not asked for: containerd ignores it.
func (m *Machine) images(ctx context.Context) ([]string, error) {
	out, err := m.Output(ctx, "crictl", "images", "--output", "json")
	if err != nil {
		return nil, err
	}
	var found struct {
		Images []struct{ RepoTags, RepoDigests []string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("read what crictl images prints: %w", err)
	}
	var list []string
	for _, image := range found.Images {
		list = slices.Concat(list, image.RepoTags, image.RepoDigests)
	}
	return list, nil
}

// PullImage has the machine's container runtime pull an image, with the mirrors and the proxy that the runtime has. asked is false where
// crictl is missing, or does not reach the runtime: nothing is known of the image then.
func (m *Machine) PullImage(ctx context.Context, ref string) (asked bool, err error) {
	if _, err := m.images(ctx); err != nil {
		return false, err
	}
	var out bytes.Buffer
	if err := m.Runner.Run(ctx, Command{Name: "crictl", Args: []string{"pull", ref}, Out: &out, Err: &out, Changes: true}); err != nil {
		if ctx.Err() != nil { // how the program ended says less
			err = context.Cause(ctx)
		}
		return true, fmt.Errorf("run crictl pull %s: %w: %s", ref, err, lastLine(out.Bytes()))
	}
	return true, nil
}

// ImageDigest asks containerd for the digest of an image, by its complete reference; empty: it has none of that name.
func (m *Machine) ImageDigest(ctx context.Context, ref string) (string, error) {
	out, err := m.Output(ctx, "ctr", "--namespace", KubernetesNamespace, "images", "list", "name=="+ref)
	if err != nil {
		return "", fmt.Errorf("ask containerd for image %s: %w", ref, err)
	}
	for line := range strings.Lines(string(out)) { // REF TYPE DIGEST SIZE ...
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == ref {
			return fields[2], nil
		}
	}
	return "", nil
}
