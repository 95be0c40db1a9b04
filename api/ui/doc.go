// Package ui serves the web interface. Its TypeScript is in src; Vite builds it into dist, which the binary embeds.
//
// The files in dist are compressed. Names in dist/assets hold a hash of the content, so browsers keep these files forever and
// ask for index.html each time. All links are relative, so the interface works below any path.
package ui
