class Ccmadm < Formula
  desc "Bootstrap and diagnose kubeadm clusters in external cloud mode"
  homepage "<<.Repository>>"
  version "<<.Number>>"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "<<url "darwin" "arm64">>"
      sha256 "<<sum "darwin" "arm64">>"
    end
    on_intel do
      url "<<url "darwin" "amd64">>"
      sha256 "<<sum "darwin" "amd64">>"
    end
  end

  on_linux do
    on_arm do
      url "<<url "linux" "arm64">>"
      sha256 "<<sum "linux" "arm64">>"
    end
    on_intel do
      url "<<url "linux" "amd64">>"
      sha256 "<<sum "linux" "amd64">>"
    end
  end

  def install
    bin.install "ccmadm"
    generate_completions_from_executable(bin/"ccmadm", "completion")
  end

  test do
    assert_match "<<.Version>>", shell_output("#{bin}/ccmadm version")
  end
end
