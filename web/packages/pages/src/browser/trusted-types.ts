/** What a site with Trusted Types gives to functions that could run code. TypeScript's types of these functions take texts. */
interface TrustedTypes {
  createPolicy(name: string, rules: Policy): Policy
}

interface Policy {
  createHTML(text: string): string
  createScriptURL(text: string): string
}

/** The name that a site allows in the directive `trusted-types` of its Content-Security-Policy. */
const POLICY_NAME = 'watchfire'

let policy: Policy | null | undefined

function own(): Policy | null {
  if (policy !== undefined) return policy
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes }
  const rules = { createHTML: (text: string) => text, createScriptURL: (text: string) => text }
  try {
    policy = trustedTypes?.createPolicy(POLICY_NAME, rules) ?? null
  } catch {
    // The site does not allow it. What needs it throws.
    policy = null
  }
  return policy
}

/** Markup for an inert document, or for a frame without scripts. */
export const trustedHtml = (markup: string): string => own()?.createHTML(markup) ?? markup

/** The address of a worker of ours. */
export const trustedScriptUrl = (address: string): string => own()?.createScriptURL(address) ?? address
