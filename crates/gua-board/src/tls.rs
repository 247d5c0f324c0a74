//! TLS of the server, with a certificate and key from files, which are reloaded when they change, or with a self-signed
//! certificate that the board creates. Hosts pin the fingerprint of a self-signed certificate, because no CA has issued it.

use std::fmt;
use std::fs::Metadata;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gua_files::{NewFile, Over};
use gua_wire::Pin;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// Files of the self-signed certificate, in the board's data directory.
const OWN_CERTIFICATE: &str = "certificate.pem";
const OWN_KEY: &str = "certificate-key.pem";

/// PEM files of a certificate with its chain, and of its key.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Reason a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read a certificate or key from `{}`", path.display())]
    Read {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("the certificate `{}` and its key cannot be used", path.display())]
    Unusable {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("cannot create a self-signed certificate")]
    Make(#[source] rcgen::Error),
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The TLS configuration of a server.
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Loads a certificate.
    pub fn load(files: CertificateFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let loaded = Loaded::read(&files)?;
        let certificate = Arc::new(Certificate {
            files,
            loaded: Mutex::new(loaded),
        });
        let resolver = Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports all versions of TLS")
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
        })
    }

    /// Fingerprint of the certificate that is served now.
    pub fn pin(&self) -> Pin {
        Pin::of(&self.certificate.current().cert[0])
    }

    /// Loads the files again if they changed. New connections use the new certificate; an unusable one is logged, and the
    /// previous one stays.
    pub fn reload(&self) {
        let stamps = stamps(&self.certificate.files);
        if self.certificate.lock().stamps == stamps {
            return;
        }
        match Loaded::read(&self.certificate.files) {
            Ok(loaded) => {
                *self.certificate.lock() = loaded;
                info!(pin = %self.pin(), "certificate loaded again");
            }
            Err(error) => {
                let error = gua_model::chain::chain(&error);
                warn!(
                    error,
                    "new certificate rejected; the previous one stays in use"
                );
                // Not logged again until the files change again.
                self.certificate.lock().stamps = stamps;
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tls({})", self.pin())
    }
}

/// The certificate of new connections.
#[derive(Debug)]
struct Certificate {
    files: CertificateFiles,
    loaded: Mutex<Loaded>,
}

impl Certificate {
    fn lock(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.lock().key)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

#[derive(Debug)]
struct Loaded {
    key: Arc<CertifiedKey>,
    stamps: Stamps,
}

impl Loaded {
    fn read(files: &CertificateFiles) -> Result<Self, TlsError> {
        // Taken first, so that a change while the files are read is noticed at the next check.
        let stamps = stamps(files);
        let as_read_error = |path: &Path| {
            let path = path.to_owned();
            |source| TlsError::Read { path, source }
        };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(as_read_error(&files.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(as_read_error(&files.key))?;
        let provider = rustls::crypto::ring::default_provider();
        let key = match chain.is_empty() {
            true => Err(rustls::Error::NoCertificatesPresented),
            false => CertifiedKey::from_der(chain, key, &provider),
        };
        let key = key.map_err(|source| TlsError::Unusable {
            path: files.certificate.clone(),
            source,
        })?;
        let key = Arc::new(key);
        Ok(Self { key, stamps })
    }
}

/// Attributes of both files that change when they are replaced.
type Stamps = [Option<(u64, u64, i64, i64)>; 2];

fn stamps(files: &CertificateFiles) -> Stamps {
    let stamp = |facts: Metadata| (facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec());
    [&files.certificate, &files.key].map(|path| path.metadata().ok().map(stamp))
}

/// Returns the board's self-signed certificate, and creates it if there is none. It does not expire, because hosts pin its
/// fingerprint.
pub fn own_certificate(directory: &Path, names: &[String]) -> Result<CertificateFiles, TlsError> {
    let files = CertificateFiles {
        certificate: directory.join(OWN_CERTIFICATE),
        key: directory.join(OWN_KEY),
    };
    if files.certificate.exists() && files.key.exists() {
        return Ok(files);
    }
    let mut params = CertificateParams::new(names).map_err(TlsError::Make)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "gua board");
    let key = KeyPair::generate().map_err(TlsError::Make)?;
    let certificate = params.self_signed(&key).map_err(TlsError::Make)?;
    for (path, text) in [
        (&files.key, key.serialize_pem()),
        (&files.certificate, certificate.pem()),
    ] {
        let write = || {
            let new = NewFile::begin_private(path, Over::Write)?;
            (&new.file).write_all(text.as_bytes())?;
            new.finish()
        };
        write().map_err(|source| TlsError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_boards_certificate_is_made_once_and_its_key_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned(), "192.0.2.1".to_owned()];
        let files = own_certificate(directory.path(), &names).unwrap();
        let pin = Tls::load(files.clone()).unwrap().pin();
        let mode = files.key.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = own_certificate(directory.path(), &names).unwrap();
        assert_eq!(Tls::load(again).unwrap().pin(), pin);
    }

    #[test]
    fn a_changed_certificate_is_used_and_an_unusable_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned()];
        let files = own_certificate(directory.path(), &names).unwrap();
        let newer = own_certificate(other.path(), &names).unwrap();
        let tls = Tls::load(files.clone()).unwrap();
        let first = tls.pin();
        tls.reload();
        assert_eq!(tls.pin(), first);
        // The certificate alone does not match the old key.
        std::fs::copy(&newer.certificate, &files.certificate).unwrap();
        tls.reload();
        assert_eq!(tls.pin(), first);
        std::fs::copy(&newer.key, &files.key).unwrap();
        tls.reload();
        let second = tls.pin();
        assert_ne!(second, first);
        std::fs::write(&files.certificate, "nothing").unwrap();
        tls.reload();
        assert_eq!(tls.pin(), second);
        assert!(Tls::load(files).is_err());
    }
}
