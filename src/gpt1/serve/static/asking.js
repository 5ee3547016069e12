// Questions to the server, with the token where it wants one, and its refusals in its own words.

const KEY = "gpt1-token"; // in this tab's memory alone

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export async function ask(path, body) {
  const token = sessionStorage.getItem(KEY);
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const asked = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, asked);
  } catch {
    throw new Refused("The server does not answer. Is it still running?", 0);
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  throw new Refused(found?.error?.message ?? `The server answers with status ${answer.status}.`, answer.status);
}
