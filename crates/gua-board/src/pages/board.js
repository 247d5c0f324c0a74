// Makes pages live, tells when a GPU becomes free, fills in the links of /join and /reset, and copies commands. Every page works without it.
'use strict';

(() => {
  const main = document.querySelector('main');

  // A link keeps its secret in the fragment, which browsers do not send.
  const links = document.querySelectorAll('input[name=link]');
  if (links.length > 0 && location.hash.length > 1) {
    for (const link of links) link.value = location.hash.slice(1);
    history.replaceState(null, '', location.pathname + location.search);
  }

  document.addEventListener('click', async (event) => {
    const button = event.target.closest('[data-copy]');
    if (!button || !navigator.clipboard) return;
    const code = button.parentElement.querySelector('code');
    await navigator.clipboard.writeText(code.textContent);
    button.classList.add('done');
    setTimeout(() => button.classList.remove('done'), 1500);
  });

  // Waits until the filter of the page finds a free GPU. The page has to stay open.
  const watch = document.querySelector('[data-watch]');
  let isWatching = false;
  const setWatching = (wanted) => {
    isWatching = wanted;
    watch.setAttribute('aria-pressed', String(wanted));
    watch.textContent = wanted ? watch.dataset.waiting : watch.dataset.watch;
  };
  const tell = () => {
    const summary = document.querySelector('[data-free]');
    if (!isWatching || !summary || summary.dataset.free === '0') return;
    setWatching(false);
    document.title = `● ${summary.textContent}`;
    if (window.Notification && Notification.permission === 'granted') new Notification(summary.textContent);
  };
  if (watch) {
    watch.addEventListener('click', async () => {
      setWatching(!isWatching);
      if (isWatching && window.Notification && Notification.permission === 'default') await Notification.requestPermission();
      tell();
    });
  }

  const stream = main.dataset.live;
  if (!stream || !window.EventSource) return;
  let source = null;
  let isLoading = false;

  // Replaces the live parts that changed, except those in which the user types or selects.
  const refresh = async () => {
    const selection = getSelection();
    if (isLoading || (selection && !selection.isCollapsed)) return;
    isLoading = true;
    try {
      const page = document.querySelector('[data-page]');
      const response = await fetch(page ? page.dataset.page : location.href, {headers: {accept: 'text/html'}});
      if (response.status === 401) location.reload();
      if (!response.ok) return;
      const next = new DOMParser().parseFromString(await response.text(), 'text/html');
      for (const part of document.querySelectorAll('[data-part]')) {
        const fresh = next.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!fresh || fresh.innerHTML === part.innerHTML || part.querySelector('details[open]')) continue;
        const focused = part.contains(document.activeElement) && document.activeElement.getAttribute('href');
        part.innerHTML = fresh.innerHTML;
        if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
      }
      tell();
    } catch {
      // The board cannot be reached; the stream reconnects and brings the next change.
    } finally {
      isLoading = false;
    }
  };

  const update = (event) => {
    if (document.hidden && source && !isWatching) {
      source.close();
      source = null;
    } else if (!document.hidden && !source) {
      source = new EventSource(stream);
      source.addEventListener('change', refresh);
      source.addEventListener('open', () => document.body.classList.add('live'));
      source.addEventListener('error', () => document.body.classList.remove('live'));
      if (event) refresh();
    }
  };
  document.addEventListener('visibilitychange', update);
  addEventListener('pagehide', () => source && source.close());
  update();
})();
