/** The values that a site with Trusted Types gives to functions that could run code. TypeScript's types of these functions take texts. */
interface Policy {
  createHTML(text: string): string
  createScriptURL(text: string): string
}

declare const trustedTypes: { createPolicy(name: string, rules: Policy): Policy }

let policy: Policy | undefined

/**
 * Markup for an inert document or for a frame without scripts, or the address of a worker of ours, for a site that allows the policy
 * `watchfire` in the directive `trusted-types`. If the site does not, what needs it throws.
 */
export function trusted(text: string, as: keyof Policy): string {
  const same = (unchanged: string) => unchanged
  try {
    policy ??= trustedTypes.createPolicy('watchfire', { createHTML: same, createScriptURL: same })
  } catch {
    // The site does not allow it, or the browser does not know it.
  }
  return policy?.[as](text) ?? text
}
