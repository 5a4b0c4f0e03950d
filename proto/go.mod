module github.com/pulsemq/pulsemq/proto

go 1.26

require (
	github.com/klauspost/compress v1.20.4
	github.com/pierrec/lz4/v4 v4.1.33
)

require pgregory.net/rapid v1.3.0
