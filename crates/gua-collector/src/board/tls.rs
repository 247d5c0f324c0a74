//! TLS configuration: the system's CA certificates are trusted, and those of an additional file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Why there are no CA certificates to trust.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read certificates from `{}`", path.display())]
    File { path: PathBuf, source: pem::Error },
    #[error("no certificate in `{}`; a PEM file is required", path.display())]
    NoneInFile { path: PathBuf },
    #[error(
        "this system has no CA certificates; install ca-certificates or pass a file with --ca-file"
    )]
    NoneAtAll,
}

/// Maximum size of a file of CA certificates. That of Debian has 220 kB.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the CA certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = gua_files::read_regular(path, MAX_BYTES)
        .map_err(pem::Error::Io)
        .and_then(|bytes| CertificateDer::pem_slice_iter(&bytes).collect());
    let certificates: Vec<_> = read.map_err(|source| TlsError::File {
        path: path.to_owned(),
        source,
    })?;
    match RootCertStore::empty().add_parsable_certificates(certificates.iter().cloned()) {
        (0, _) => Err(TlsError::NoneInFile {
            path: path.to_owned(),
        }),
        _ => Ok(certificates),
    }
}

/// Creates the TLS configuration of a board.
pub(crate) fn tls_config(ca_file: Option<&Path>) -> Result<TlsConfig, TlsError> {
    let mut roots = ca_file.map(certificates).transpose()?.unwrap_or_default();
    // Invalid certificates of the system are skipped.
    roots.extend(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoneAtAll);
    }
    let roots = roots
        .iter()
        .map(|root| Certificate::from_der(root).to_owned());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}
