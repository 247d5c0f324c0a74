//! A TLS server with a self-signed certificate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection, encrypted or not.
pub(crate) trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

#[derive(Clone, Debug)]
pub(crate) struct TlsServer(Arc<ServerConfig>);

impl TlsServer {
    /// Creates a server with a certificate for `host`, which is written to `ca_file`.
    pub(crate) fn new(host: &str, ca_file: &Path) -> Self {
        let signing_key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([host.to_owned()]).unwrap();
        // No authority in the system's store has this name; some systems have one with the name `localhost`.
        let name = format!("{host} of gua's tests");
        parameters.distinguished_name.push(DnType::CommonName, name);
        let cert = parameters.self_signed(&signing_key).unwrap();
        std::fs::write(ca_file, cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        Self(Arc::new(config))
    }

    /// Performs the handshake. Returns `None` if the client ends it.
    pub(crate) fn accept(
        &self,
        mut socket: TcpStream,
    ) -> Option<StreamOwned<ServerConnection, TcpStream>> {
        let mut session = ServerConnection::new(Arc::clone(&self.0)).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut socket).ok()?;
        }
        Some(StreamOwned::new(session, socket))
    }
}
