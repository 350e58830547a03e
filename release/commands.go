package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newRoot returns the command. getenv gives the variables that name keys and the builder.
func newRoot(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use: "release", Short: "Make, verify and publish a release of ccmadm", Args: cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(newBuild(getenv), newVerify(), newPush())
	return root
}

func newBuild(getenv func(string) string) *cobra.Command {
	var version, source, output, database string
	var unchecked bool
	cmd := &cobra.Command{
		Use: "build", Short: "Write every artefact of a version into a folder", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := newRelease(cmd.Context(), version, source, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			r.goVersion = goVersion()
			r.builder = getenv("RELEASE_BUILDER_ID")
			if r.signer, err = readSigner(getenv("COSIGN_PRIVATE_KEY_FILE")); err != nil {
				return err
			}
			if r.openPGP, err = readOpenPGP(getenv("GPG_PRIVATE_KEY_FILE"), r.date); err != nil {
				return err
			}
			if unchecked {
				fmt.Fprintln(cmd.ErrOrStderr(), "[release] not checked for known vulnerabilities: --no-vuln-check")
			} else if err := r.checkVulnerabilities(cmd.Context(), database); err != nil {
				return err
			}
			return r.write(cmd.Context(), output)
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "version to release, such as v0.1.0")
	cmd.Flags().StringVar(&source, "source", "..", "checkout of the repository")
	cmd.Flags().StringVar(&output, "output", "../dist", "folder to write; a release that is there is replaced")
	cmd.Flags().StringVar(&database, "vuln-db", "", "URL of the vulnerability database, as file:///FOLDER (default: https://vuln.go.dev)")
	cmd.Flags().BoolVar(&unchecked, "no-vuln-check", false, "release without a look for known vulnerabilities")
	return cmd
}

func newVerify() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "verify FOLDER", Short: "Compare a folder with its checksums, signature and provenance", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := verify(args[0], key)
			if err != nil {
				return err
			}
			said := "signature not checked: --key FILE names the public key"
			if key != "" {
				said = "signature of " + filepath.Base(key) + " verified"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files as released; %s\n", args[0], number, said)
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "public key in PEM that SHA256SUMS has to be signed by")
	return cmd
}

func newPush() *cobra.Command {
	var registry, version string
	cmd := &cobra.Command{
		Use: "push FOLDER", Short: "Push the images of a verified folder, and print their digests", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := verify(args[0], ""); err != nil {
				return err
			}
			return push(cmd.Context(), args[0], version, registry, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "version in the folder, such as v0.1.0")
	cmd.Flags().StringVar(&registry, "registry", imageRegistry, "registry and path above the images' names")
	return cmd
}
