"""Certificates for tests: an authority, and certificates of it for this machine."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """``ca`` is the file with its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _name(name)
        self.ca = str(folder / f"{name}.pem")
        self._serial = 0
        certificate = self._build(self._name, self._key).sign(self._key, hashes.SHA256())
        Path(self.ca).write_bytes(certificate.public_bytes(Encoding.PEM))

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        self._serial += 1
        now = datetime.datetime.now(datetime.UTC)
        authority = key is self._key
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(self._serial)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def issue(self, name: str) -> dict[str, str]:
        """Settings with a certificate for this machine; a second one of the same name replaces its files. The serial
        number counts up."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            self._build(_name(name), key)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = {"tls_certificate": self.folder / f"{name}.crt", "tls_key": self.folder / f"{name}.key"}
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for file, content in zip(files.values(), (certificate.public_bytes(Encoding.PEM), private), strict=True):
            draft = file.with_suffix(".new")
            draft.write_bytes(content)
            draft.replace(file)
        return {setting: str(file) for setting, file in files.items()} | {"tls_ca": self.ca}
