//! TLS configuration: the system's CA certificates are trusted, and those of an additional file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Why there are no CA certificates to trust.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read certificates from `{}`", path.display())]
    File {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("no certificate in `{}`; a PEM file is required", path.display())]
    NoneInFile { path: PathBuf },
    #[error(
        "this system has no CA certificates; install ca-certificates or pass a file with --ca-file"
    )]
    NoneAtAll,
}

/// Reads the CA certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<RootCertStore, TlsError> {
    let of_file = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(of_file)?;
    let certificates: Result<Vec<_>, _> = certificates.collect();
    match roots.add_parsable_certificates(certificates.map_err(of_file)?) {
        (0, _) => Err(TlsError::NoneInFile {
            path: path.to_owned(),
        }),
        _ => Ok(roots),
    }
}

/// Creates the TLS configuration of a board. Connections share it, so sessions can be resumed.
pub(crate) fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = match ca_file {
        Some(path) => certificates(path)?,
        None => RootCertStore::empty(),
    };
    // Invalid certificate files of the system are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoneAtAll);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports every TLS version of rustls")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
