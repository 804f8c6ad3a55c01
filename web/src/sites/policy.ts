/**
 * The policy of every document of a site. It reaches its own origin alone, where every request is answered by its
 * worker; there is no way to load a worker from it, since browsers fetch those past the worker.
 *
 * @param origin the site's
 * @param app the origin that may show it
 */
export function policyOf({ scripts, origin, app }: { scripts: boolean; origin: string; app: string }): string {
  // The origin and not 'self', which would let websockets through to its server.
  const own = `${origin} data: blob:`
  return [
    `sandbox allow-same-origin${scripts ? ' allow-scripts allow-forms' : ''}`,
    `default-src ${own}`,
    `style-src ${own} 'unsafe-inline'`,
    `script-src ${scripts ? `${own} 'unsafe-inline' 'unsafe-eval'` : "'none'"}`,
    `worker-src ${scripts ? 'blob:' : "'none'"}`,
    `frame-src ${origin}`,
    "object-src 'none'",
    "manifest-src 'none'",
    `base-uri ${origin}`,
    `form-action ${scripts ? origin : "'none'"}`,
    `frame-ancestors ${origin}${isOrigin(app) ? ` ${app}` : ''}`,
  ].join('; ')
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[\w.-]+(?::\d+)?$/.test(text)
}

/** What goes with every answer of a site, besides its policy. */
export const SEALED_HEADERS: Readonly<Record<string, string>> = {
  // Where the browser knows it: no connection but to its own origin, by any means. It knows no worker that answers.
  'connection-allowlist': '(response-origin)',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-dns-prefetch-control': 'off',
  'origin-agent-cluster': '?1',
  'cache-control': 'no-store',
}
