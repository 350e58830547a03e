package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/images"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

func newImages(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List, save, load and verify the images of a provider, for air-gapped clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImagesList(s), newImagesSave(s), newImagesLoad(s), newImagesVerify(s))
	return cmd
}

// images lists those of the provider, and ccmadm's own.
func (r *renderer) images() ([]string, error) {
	p, err := providers.Profile(&r.settings)
	if err != nil {
		return nil, err
	}
	list, err := p.Images(r.values(p, nil))
	if err != nil {
		return nil, finding.Usagef("%w", err)
	}
	own, err := p.ContainerImage(templates.Image{Repository: ownRepository, Tag: version}, templates.Values{ImageRepository: r.mirror})
	if err != nil {
		return nil, finding.Usagef("%w", err)
	}
	return append(list, own), nil
}

func newImagesList(s workflow.Streams) *cobra.Command {
	var r renderer
	var format output.Format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images of a provider and of ccmadm, one per line",
		Long: `The last image is ccmadm's own: pods of adopt, leave, upgrade and rollback with --via pods, and of rehearse, run it.
If a mirror has it under another name, pass --node-image to these commands. For the images of Kubernetes itself run
"kubeadm config images list".`,
		Example: "  ccmadm images list --provider aws --kubernetes-version v1.36.3\n  ccmadm images list --provider onprem -o json",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			list, err := r.images()
			if err != nil {
				return err
			}
			shown := map[string][]string{"images": list} // as "kubeadm config images list" has it
			return format.Write(s.Out, output.Object(shown), func() error {
				_, err := fmt.Fprintln(s.Out, strings.Join(list, "\n"))
				return err
			})
		},
	}
	r.declare(cmd)
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

// declareArch declares for which architectures images are wanted.
func declareArch(cmd *cobra.Command, archs *[]string) {
	cmd.Flags().StringSliceVar(archs, "arch", []string{runtime.GOARCH},
		"architectures of the nodes, as amd64,arm64 (default: that of this ccmadm)")
	cmd.Flags().Lookup("arch").DefValue = "[]" // the reference is the same wherever it is written
}

// checkArchs trims the architectures. Without one, nothing would be asked for, or all would be taken.
func checkArchs(archs []string) error {
	for i, arch := range archs {
		archs[i] = strings.TrimSpace(arch)
		if archs[i] == "" || strings.ContainsAny(archs[i], "/ \t\n") {
			return finding.Usagef("--arch: %q is not an architecture: want --arch amd64,arm64", arch)
		}
	}
	if len(archs) == 0 {
		return finding.Usagef("--arch names no architecture: want --arch amd64,arm64")
	}
	return nil
}

func newImagesVerify(s workflow.Streams) *cobra.Command {
	var r renderer
	var archs []string
	var format output.Format
	cmd := &cobra.Command{
		Use:   "verify --provider NAME",
		Short: "Ask registries whether they have the images of a provider and of ccmadm",
		Long: `Vendors publish images days or weeks after a release of Kubernetes, and some not for every architecture. The command asks the
registry for each image and architecture, and downloads manifests only. It uses the credentials that "docker login" wrote.

A registry that denies access, limits requests or does not respond is reported as "cannot be asked", never as "missing".` +
			usage.ExitStatuses(usage.Endings{
				finding.ExitError: "a registry cannot be asked, and nothing is known to be missing",
				finding.ExitFound: "an image is missing, or has no variant for an architecture",
			}),
		Example: "  ccmadm images verify --provider aws --kubernetes-version 1.37 --arch amd64,arm64",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			if err := checkArchs(archs); err != nil {
				return err
			}
			list, err := r.images()
			if err != nil {
				return err
			}
			found := images.Verify(cmd.Context(), images.Registries{UserAgent: "ccmadm/" + version}, list, archs)
			err = format.Write(s.Out, output.Object(found), func() error {
				w := table.New(s.Out, "IMAGE", "ARCHITECTURE", "STATE", "REASON")
				for _, f := range found {
					w.Row(f.Image, f.Architecture, string(f.State), f.Reason)
				}
				return w.Flush()
			})
			return errors.Join(err, judgeImages(found))
		},
	}
	r.declare(cmd)
	declareArch(cmd, &archs)
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

func judgeImages(found []images.Status) error {
	missing, unknown := 0, 0
	for _, f := range found {
		switch f.State {
		case images.StateMissing, images.StateArchitecture:
			missing++
		case images.StateUnknown:
			unknown++
		case images.StateThere:
		}
	}
	switch {
	case missing > 0:
		return &finding.Error{Code: finding.ExitFound, Err: fmt.Errorf("%d of %d images are missing", missing, len(found))}
	case unknown > 0:
		return finding.Errorf("%d of %d images cannot be asked for", unknown, len(found)).
			WithHint("log in with `docker login`, or run the command again later")
	}
	return nil
}

func newImagesSave(s workflow.Streams) *cobra.Command {
	var r renderer
	var archs, more []string
	var file, from string
	cmd := &cobra.Command{
		Use:   "save --provider NAME -o FILE",
		Short: "Write the images of a provider and of ccmadm into one archive",
		Long: `Writes an OCI image layout in a tar, for "ccmadm images load". The images come from their registries, with the credentials that
"docker login" wrote, or from a folder: that of a release of ccmadm, or of OCI image layouts. Every blob is compared with its digest,
and if the folder has SHA256SUMS, each archive with that of the list. Its signature is not verified.
The same images give the same bytes. If an image is missing, no file is written.`,
		Example: "  ccmadm images save --provider onprem --arch amd64,arm64 -o images.tar\n" +
			"  ccmadm images save --provider onprem --from dist -o images.tar",
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return finding.Usagef("--output is missing: it names the archive that is written")
			}
			if file == output.JSON || file == output.YAML {
				return finding.Usagef("read --output: %q is a format: want the name of the archive", file).
					WithHint("-o images.tar; `ccmadm images list -o %s` lists the images", file)
			}
			if err := checkArchs(archs); err != nil {
				return err
			}
			list, err := r.images()
			if err != nil {
				return err
			}
			list = append(list, more...)
			if err := saveImages(cmd.Context(), file, from, list, archs); err != nil {
				return usage.Observed(err)
			}
			_, err = fmt.Fprintf(s.Out, "%s: %d images for %s\n", file, len(list), strings.Join(archs, ", "))
			return err
		},
	}
	r.declare(cmd)
	declareArch(cmd, &archs)
	cmd.Flags().StringVarP(&file, "output", "o", "", "the archive that is written")
	cmd.Flags().StringVar(&from, "from", "", "folder that has the images, instead of registries")
	cmd.Flags().StringArrayVar(&more, "add", nil, "reference of a further image, such as one of the CNI plugin; may be repeated")
	return cmd
}

func saveImages(ctx context.Context, file, from string, list, archs []string) error {
	var source images.Source = images.Registries{UserAgent: "ccmadm/" + version}
	if from != "" {
		folder, err := images.OpenFolder(from)
		if err != nil {
			return finding.Usagef("read --from: %w", err)
		}
		defer func() { _ = folder.Close() }() // it was read
		source = folder
	}
	out, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o644))
	if err != nil {
		return finding.Usagef("write archive: %w", err)
	}
	defer func() { _ = out.Cleanup() }() // after CloseAtomicallyReplace there is nothing left
	if err := images.Save(ctx, out, source, list, archs); err != nil {
		return finding.Errorf("%w", err).WithHint("`ccmadm images verify` shows which images exist; %s was not written", file)
	}
	return out.CloseAtomicallyReplace()
}

// imageLoader is one run of images load.
type imageLoader struct {
	streams workflow.Streams
	remote  fleet.Remote
	via     string
	root    string
	sum     string
	address string
	config  string
	whose   kubelet.Whose
}

func newImagesLoad(s workflow.Streams) *cobra.Command {
	l := imageLoader{streams: s}
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Import an archive of images into containerd, here or on every node",
		Long: `Compares every blob of the archive with its digest, then imports the archive into containerd's namespace k8s.io of this machine.
With --via ssh or --via pods it does so on every node of the cluster. "-" reads the archive from standard input.

Over SSH, ccmadm has to be installed on the nodes. Pods need ccmadm's own image on the nodes, and must reach this machine by TCP.
An image that the archive does not have for a node's architecture is refused before anything is imported. The command is
idempotent: images that containerd has are reported as unchanged. A node that fails does not stop the others.` +
			usage.ExitStatuses(usage.Endings{
				finding.ExitError:   "an import failed; the message names the nodes that are done",
				finding.ExitUsage:   "the archive is damaged or is no OCI image layout; nothing was imported",
				finding.ExitRefused: "the archive lacks an architecture; nothing was imported",
			}),
		Example: "  ccmadm images load images.tar\n  ccmadm images load images.tar --via ssh --parallel 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("%s: want one archive, got %d arguments", cmd.CommandPath(), len(args)).WithHint("%s --help", cmd.CommandPath())
			}
			if err := l.check(cmd.Flags()); err != nil {
				return err
			}
			return usage.Observed(l.load(cmd.Context(), args[0]))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.via, "via", "", "import on every node: ssh or pods (default: on this machine)")
	declareWays(flags, &l.remote)
	flags.IntVar(&l.remote.Parallel, "parallel", 1, "how many nodes import at a time")
	declareSkip(flags, &l.remote)
	flags.StringVar(&l.address, "address", "", "address of this machine that pods connect to (default: that of the default route)")
	flags.StringVar(&l.config, "kubeconfig", "", "kubeconfig to use instead of this machine's own")
	flags.StringVar(&l.root, "root", "/", "where the machine's root is mounted: in a pod, /host say")
	flags.StringVar(&l.sum, "sha256", "", "digest that the archive has to have, in hexadecimal digits")
	declareWhose(flags, &l.whose)
	return cmd
}

func (l *imageLoader) load(ctx context.Context, source string) error {
	m := machine.Host(l.root)
	if l.whose.Node != "" || len(l.whose.CAs) > 0 {
		if err := l.whose.Check(kubelet.WhoseMachine(m)); err != nil {
			return finding.Refusedf("import images on this machine: %w", err)
		}
	}
	file, err := l.local(ctx, source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was read
	archive, err := images.Open(ctx, file)
	if err != nil {
		return err
	}
	if l.via != "" {
		return l.everywhere(ctx, m, file, archive)
	}
	outliveReader()
	return l.here(ctx, m, archive)
}

func (l *imageLoader) here(ctx context.Context, m *machine.Machine, archive *images.Archive) error {
	imported, err := archive.Load(ctx, m, runtime.GOARCH)
	if err != nil {
		return err
	}
	for _, name := range archive.Names() {
		done := "unchanged"
		if slices.Contains(imported, name) {
			done = "imported"
		}
		fmt.Fprintf(l.streams.Out, "%s %s\n", name, done)
	}
	return nil
}

// local opens the archive, once: it may have another content under its name later. What comes from elsewhere is copied. Where a digest was
// given, it is compared.
func (l *imageLoader) local(ctx context.Context, source string) (file *os.File, err error) {
	web := strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
	switch {
	case web && l.sum == "":
		return nil, finding.Usagef("load %s: --sha256 is missing, by which what is received is compared", source)
	case source == "-", web:
		if file, err = l.receive(ctx, source); err != nil {
			return nil, fmt.Errorf("receive the archive: %w", err)
		}
	default:
		if file, err = os.Open(source); err != nil {
			return nil, finding.Usagef("read archive: %w", err).WithHint("nothing was imported")
		}
	}
	if l.sum == "" {
		return file, nil
	}
	sum, err := images.FileDigest(file)
	if err == nil && !strings.EqualFold(sum, l.sum) {
		err = finding.Usagef("read archive: its SHA-256 is %s, want %s", sum, l.sum).WithHint("nothing was imported")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// receive copies the archive to a file that has no name any more, and is gone with this process.
func (l *imageLoader) receive(ctx context.Context, source string) (*os.File, error) {
	in := l.streams.In
	if source != "-" {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }() // it was read
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server responds %s", answer.Status)
		}
		in = answer.Body
	}
	file, err := os.CreateTemp(spoolDir(l.streams.Getenv("TMPDIR")), "ccmadm-images-*.tar")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = io.Copy(file, in)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// spoolDir is where large files go that are gone soon, if TMPDIR does not say: /tmp is in memory on many machines. A container may have
// no /var/tmp.
func spoolDir(tmpdir string) string {
	const large = "/var/tmp"
	if info, err := os.Stat(large); tmpdir != "" || err != nil || !info.IsDir() {
		return tmpdir // empty: what the system has
	}
	return large
}
