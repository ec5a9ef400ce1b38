#!/bin/sh
# Makes a private authority, and one certificate of it for all parts:
#   deploy/certificates.sh FOLDER NAME...
# NAME: the host names and addresses under which parts and subscribers reach each other. Run it again to renew the
# certificate: the authority stays, and the parts read the new files without a restart.
set -eu
folder=$1
shift
mkdir -p "$folder"
umask 077
if [ ! -e "$folder/ca.key" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Tocsin authority" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
        -keyout "$folder/ca.key" -out "$folder/ca.crt" 2>/dev/null
fi
names=DNS:localhost,IP:127.0.0.1
for name in "$@"; do
    case $name in
        *:*) kind=IP ;;
        *[!0-9.]*) kind=DNS ;;
        *) kind=IP ;;
    esac
    names=$names,$kind:$name
done
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=critical,CA:FALSE\n' "$names" \
    > "$folder/extensions"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=Tocsin" \
    -keyout "$folder/new.key" -out "$folder/request" 2>/dev/null
openssl x509 -req -in "$folder/request" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -days 365 \
    -extfile "$folder/extensions" -out "$folder/new.crt" 2>/dev/null
# The parts' user reads these; the key of the authority stays with its owner.
chmod 644 "$folder/new.crt" "$folder/ca.crt"
chmod 640 "$folder/new.key"
mv "$folder/new.key" "$folder/tocsin.key"
mv "$folder/new.crt" "$folder/tocsin.crt"
rm "$folder/request" "$folder/extensions"
