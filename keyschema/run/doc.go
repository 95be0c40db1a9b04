// Package run packs the samples of one series and hour into a few bytes, and folds the cells of a row into columns.
package run
