//! Messages by mail: SMTP with STARTTLS, or with TLS from the first byte on port 465. Without TLS only to this host.

use std::net::IpAddr;
use std::time::Duration;

use gua_model::alert::Email;
use gua_model::chain::chain;
use gua_render::alert::AlertMessage;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::response::Category;
use lettre::{Message, SmtpTransport, Transport as _};

use super::{SendError, secret};
use crate::board::ConnectOptions;

/// Maximum time for each step of the conversation.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// Port on which TLS begins with the first byte (RFC 8314).
const IMPLICIT_TLS: u16 = 465;
const MAX_CERTIFICATES: u64 = 1 << 20;

/// Start of TLS in a conversation with another host: with the first byte (`Tls::Wrapper`), or with STARTTLS (`Tls::Required`).
type TlsStart = fn(TlsParameters) -> Tls;

fn tls_start(port: u16) -> TlsStart {
    match port {
        IMPLICIT_TLS => Tls::Wrapper,
        _ => Tls::Required,
    }
}

pub(super) fn send(
    email: &Email,
    message: &AlertMessage,
    options: &ConnectOptions,
) -> Result<(), SendError> {
    send_with(email, message, tls_start(email.smtp.1), options)
}

fn send_with(
    email: &Email,
    message: &AlertMessage,
    start: TlsStart,
    options: &ConnectOptions,
) -> Result<(), SendError> {
    let to = email.recipient_of(message.user.as_deref());
    let mail = mail(email, message, &to).map_err(SendError::last)?;
    let (host, port) = &email.smtp;
    let mut builder = SmtpTransport::builder_dangerous(host)
        .port(*port)
        .timeout(Some(STEP_LIMIT))
        .tls(tls(host, start, options)?);
    if let Some((user, file)) = &email.account {
        builder = builder.credentials(Credentials::new(user.clone(), secret(file)?));
    }
    let sent = builder.build().send(&mail);
    sent.map(drop).map_err(|error| SendError {
        // A refused address stays refused; a refused password may be corrected (RFC 4954: 530 to 538).
        is_retryable: !error.is_permanent()
            || error
                .status()
                .is_some_and(|code| code.category == Category::Unspecified3),
        message: chain(&error),
    })
}

fn mail(email: &Email, message: &AlertMessage, to: &str) -> Result<Message, String> {
    let address = |text: &str| {
        let address: Result<lettre::Address, _> = text.parse();
        address.map_err(|error| format!("`{}`: {error}", gua_model::text::sanitize(text)))
    };
    Message::builder()
        .from(address(&email.from)?.into())
        .to(address(to)?.into())
        .subject(message.title.clone())
        .message_id(Some(format!("<{}@gua>", message.id)))
        .header(ContentType::TEXT_PLAIN)
        .body(message.text.clone())
        .map_err(|error| error.to_string())
}

/// Mail to another host is always encrypted: it may need a password.
fn tls(host: &str, start: TlsStart, options: &ConnectOptions) -> Result<Tls, String> {
    let is_loopback = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if is_loopback {
        return Ok(Tls::None);
    }
    let mut parameters = TlsParameters::builder(host.to_owned());
    if let Some(file) = &options.ca_file {
        let bytes = gua_files::read_regular(file, MAX_CERTIFICATES)
            .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
        let certificate = Certificate::from_pem(&bytes).map_err(|error| chain(&error))?;
        parameters = parameters.add_root_certificate(certificate);
    }
    let parameters = parameters.build().map_err(|error| chain(&error))?;
    Ok(start(parameters))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gua_test::smtp::SmtpServer;

    use super::super::tests::{message, options};
    use super::*;

    fn email(server: &SmtpServer) -> Email {
        Email {
            smtp: ("127.0.0.1".to_owned(), server.port()),
            from: "gua@example.com".to_owned(),
            recipient: "{user}@example.com".to_owned(),
            account: None,
        }
    }

    #[test]
    fn mail_arrives_with_the_subject_and_the_text() {
        let server = SmtpServer::start();
        send(&email(&server), &message(), &options()).unwrap();
        let mails = server.mails();
        assert_eq!(mails.len(), 1);
        assert_eq!(mails[0].from, "<gua@example.com>");
        assert_eq!(mails[0].to, ["<ada@example.com>"]);
        let text = &mails[0].text;
        assert!(text.contains("Subject: "), "{text}");
        assert!(text.contains("Message-ID: <1c9d03fe@gua>"), "{text}");
        assert!(text.contains("GPU 0"), "{text}");
    }

    #[test]
    fn a_password_is_sent_from_its_file_and_never_shown() {
        let server = SmtpServer::start();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        gua_test::write_private(&file, "s3cret\n");
        let mut email = email(&server);
        email.account = Some(("gua".to_owned(), file));
        send(&email, &message(), &options()).unwrap();
        // The base64 form of NUL gua NUL s3cret (RFC 4616).
        assert_eq!(server.passwords(), ["AGd1YQBzM2NyZXQ="]);
        server.refuse("535 5.7.8 wrong");
        let error = send(&email, &message(), &options()).unwrap_err();
        assert!(error.message.contains("5.7.8"), "{error:?}");
        assert!(
            error.is_retryable && !error.message.contains("s3cret"),
            "{error:?}"
        );
        // The password is accepted, and the recipient is not.
        server.refuse("550 5.1.1 no such user");
        let error = send(&email, &message(), &options()).unwrap_err();
        assert!(!error.is_retryable, "{error:?}");
    }

    #[test]
    fn a_password_is_only_sent_encrypted_to_a_server_that_proves_its_name() {
        let of_plain = "STARTTLS is not supported";
        check_encryption(Tls::Required, SmtpServer::with_starttls, of_plain);
    }

    #[test]
    fn a_password_is_only_sent_encrypted_where_tls_begins_with_the_first_byte() {
        let of_plain = "InvalidContentType";
        check_encryption(Tls::Wrapper, SmtpServer::with_tls, of_plain);
    }

    /// Sends to servers with and without a trusted certificate. `of_plain` is part of the error for a server without TLS.
    fn check_encryption(start: TlsStart, server_of: fn(&str, &Path) -> SmtpServer, of_plain: &str) {
        let directory = tempfile::tempdir().unwrap();
        let [ca_file, other_ca, password] =
            ["ca.pem", "other.pem", "password"].map(|name| directory.path().join(name));
        gua_test::write_private(&password, "s3cret\n");
        // Linux connects this address to the host itself, but mail to it is sent with TLS, unlike mail to `localhost`.
        let host = "0.0.0.0";
        let sent = |server: &SmtpServer, ca_file: &Path| {
            let email = Email {
                smtp: (host.to_owned(), server.port()),
                account: Some(("gua".to_owned(), password.clone())),
                ..email(server)
            };
            let options = ConnectOptions {
                ca_file: Some(ca_file.to_owned()),
                ..options()
            };
            send_with(&email, &message(), start, &options)
        };
        let server = server_of(host, &ca_file);
        sent(&server, &ca_file).unwrap();
        assert!(server.mails()[0].is_encrypted);

        let elsewhere = server_of("mail.example.com", &other_ca);
        let plain = SmtpServer::start();
        for (server, ca_file, expected) in [
            (
                &server,
                &other_ca,
                "invalid peer certificate: UnknownIssuer",
            ),
            (&elsewhere, &other_ca, "not valid for name \"0.0.0.0\""),
            (&plain, &ca_file, of_plain),
        ] {
            let error = sent(server, ca_file).unwrap_err();
            assert!(error.is_retryable, "{error:?}");
            assert!(error.message.contains(expected), "{error:?}");
        }
        assert_eq!(server.passwords().len(), 1);
        assert!(elsewhere.passwords().is_empty() && plain.passwords().is_empty());
    }

    #[test]
    fn an_address_that_cannot_exist_is_given_up() {
        let server = SmtpServer::start();
        let mut message = message();
        message.user = Some("pod:a/b c".to_owned());
        let error = send(&email(&server), &message, &options()).unwrap_err();
        assert!(!error.is_retryable, "{error:?}");
        assert!(server.mails().is_empty());
    }

    #[test]
    fn mail_to_another_host_is_encrypted() {
        let of_host = |host: &str, port| tls(host, tls_start(port), &options()).unwrap();
        let is_plain = |host: &str| matches!(of_host(host, 25), Tls::None);
        assert!(is_plain("localhost") && is_plain("127.0.0.1") && is_plain("::1"));
        let of = |port| of_host("mail.example.com", port);
        assert!(matches!(of(587), Tls::Required(_)));
        assert!(matches!(of(465), Tls::Wrapper(_)));
        // A setting for boards and webhooks does not apply to a password.
        let options = ConnectOptions {
            unencrypted: gua_model::server_url::Unencrypted::Allowed,
            ..options()
        };
        assert!(matches!(
            tls("mail.example.com", tls_start(25), &options),
            Ok(Tls::Required(_))
        ));
    }
}
