/**
 * The content security policy of every document of a site. The document may reach only its own origin, where the worker
 * answers every request. It may not load a worker from there, because browsers fetch worker scripts without asking the
 * current worker.
 *
 * @param origin the origin of the site
 * @param app the origin that may embed it
 */
export function policyOf({ scripts, origin, app }: { scripts: boolean; origin: string; app: string }): string {
  // The origin instead of 'self': 'self' would also allow WebSockets to the server.
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

/** Headers of every response of a site, besides its policy. */
export const SANDBOX_HEADERS: Readonly<Record<string, string>> = {
  // Browsers that implement it block every connection to other origins, WebRTC included.
  'connection-allowlist': '(response-origin)',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-dns-prefetch-control': 'off',
  'origin-agent-cluster': '?1',
  'cache-control': 'no-store',
}
