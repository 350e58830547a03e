// Package images carries container images to where no registry is.
//
// Start at [Save], which writes images of registries or of a folder into one archive; at [Open] and [Archive.Load], which bring
// such an archive into containerd; and at [Verify], which asks registries whether they have images at all.
//
// Reads: registries, with the credentials that `docker login` has written; OCI layouts in folders and archives; containerd, by
// its program ctr. Writes: one archive, atomically; images in containerd's namespace k8s.io.
//
// The archive is an OCI image layout in a tar. The same images give the same bytes. Each file in it is named by its digest,
// which is compared whenever it is read. A second Load of an archive changes nothing.
//
// A registry that cannot be asked is never taken for one that lacks an image. No image is built, run or deleted.
package images
