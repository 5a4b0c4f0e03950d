module github.com/pulsemq/pulsemq/proto

go 1.26
