#!/bin/sh
# How the certificates here were made, with openssl 3: a private CA, a server and a client that it has signed, valid from 2020 for
# 106 years, on elliptic curves. They protect nothing: tests speak TLS with them on the loopback. The CA's own key was thrown away.
set -eu
cd "$(dirname "$0")"
made=$(mktemp -d)

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
# sign NAME EXTENSIONS...: a certificate of the CA for the request $made/NAME.csr
sign() {
  name=$1
  shift
  printf '%s\n' "$@" > "$made/extensions"
  openssl ca -batch -notext -config "$made/config" -extfile "$made/extensions" -in "$made/$name.csr" -out "$name.pem" $selfsign
}

cat > "$made/config" <<CONFIG
[ca]
default_ca = test
[test]
database = $made/index
new_certs_dir = $made
rand_serial = yes
default_md = sha256
default_startdate = 20200101000000Z
default_enddate = 21260101000000Z
certificate = $PWD/ca.pem
private_key = $made/ca.key.pem
policy = any
[any]
commonName = supplied
CONFIG
: > "$made/index"

key "$made/ca.key.pem"
openssl req -new -key "$made/ca.key.pem" -subj '/CN=pawl test CA' -out "$made/ca.csr"
selfsign=-selfsign
sign ca 'basicConstraints = critical, CA:TRUE' 'keyUsage = critical, keyCertSign' 'subjectKeyIdentifier = hash'
selfsign=
for side in server client; do
  key "$side.key.pem"
  openssl req -new -key "$side.key.pem" -subj "/CN=pawl test $side" -out "$made/$side.csr"
  sign "$side" 'basicConstraints = critical, CA:FALSE' 'keyUsage = critical, digitalSignature' \
    "extendedKeyUsage = ${side}Auth" 'subjectAltName = IP:127.0.0.1, DNS:localhost' 'authorityKeyIdentifier = keyid'
done
rm -r "$made"
