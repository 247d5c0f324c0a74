//! Which certificate authorities are believed: those of the system, and those of a file that a company hands out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Why nobody could be believed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read certificates from `{}`", path.display())]
    File {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("there is no certificate in `{}`; it must be a file in PEM form", path.display())]
    NoneInFile { path: PathBuf },
    #[error(
        "this system has no certificate authorities; install its ca-certificates or name a file with --ca-file"
    )]
    NoneAtAll,
}

/// Those of a file.
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

/// The settings of all encrypted connections. Sessions are resumed between them.
pub(crate) fn encryption(more: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = match more {
        Some(path) => certificates(path)?,
        None => RootCertStore::empty(),
    };
    // A broken file among the system's costs its own certificates.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoneAtAll);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring knows every version of TLS that rustls knows")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
